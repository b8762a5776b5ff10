"""Calls as events in torch's profiles."""
from __future__ import annotations

import threading
from typing import Any

import torch

from terrace.torch.tensors import Tensors


class Event:
    """The time of one call, with the shapes of its tensors, as in events of torch's own back ends."""

    def __init__(self, name: str, tensors: Tensors) -> None:
        self._thread = threading.get_ident()
        self._handle: Any = torch.autograd._record_function_with_args_enter(name, *tensors)

    def end(self) -> None:
        """Ends the event in another thread than the one that began it: torch identifies asynchronous calls by this."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if threading.get_ident() != self._thread:
            torch.autograd._record_function_with_args_exit(handle)
            return
        other = threading.Thread(target=torch.autograd._record_function_with_args_exit, args=(handle,))
        other.start()
        other.join()


def begun(name: str, tensors: Any) -> Event | None:
    """Returns an event for a call that begins; None without a profiler."""
    if not torch.autograd._profiler_enabled():
        return None
    shown = [tensors] if isinstance(tensors, torch.Tensor) else tensors if isinstance(tensors, (list, tuple)) else []
    flat = [t for some in shown for t in (some if isinstance(some, (list, tuple)) else [some])]
    return Event(name, flat)

"""Calls as events in torch's profiles."""
from __future__ import annotations

import threading
from typing import Any

import torch

from terrace.torch.tensors import Tensors


class Event:
    """The time of one call, with the shapes of its tensors, as those of torch's own back ends."""

    def __init__(self, name: str, tensors: Tensors) -> None:
        self._thread = threading.get_ident()
        self._handle: Any = torch.autograd._record_function_with_args_enter(name, *tensors)

    def end(self) -> None:
        """Ends it in a thread other than it began in, which is how torch knows the event of an asynchronous call."""
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
    """The event of a call that begins; None where nobody makes a profile."""
    if not torch.autograd._profiler_enabled():
        return None
    shown = [tensors] if isinstance(tensors, torch.Tensor) else tensors if isinstance(tensors, (list, tuple)) else []
    flat = [t for some in shown for t in (some if isinstance(some, (list, tuple)) else [some])]
    return Event(name, flat)

"""Forwards calls of torch's Work to Terrace's.

torch wraps a Work that a back end in Python returns into one of its own, which forwards only `wait` and `get_future`
(torch 2.15: PyWorkHolder). This module makes the other functions reach the Work inside. Works of other back ends are
unchanged.
"""
from __future__ import annotations

import threading
from typing import Any

import torch.distributed as dist

from terrace.torch.faults import replaces

_QUESTIONS = ("is_completed", "is_success", "exception", "source_rank", "_source_rank", "result", "_get_duration")
_asked = threading.local()


def is_asking(work: Any) -> bool:
    """Returns True if _inside() wants to know the Work in a holder. Called by get_future() of that Work."""
    if not getattr(_asked, "asking", False):
        return False
    _asked.inside = work
    return True


def _inside(holder: Any) -> Any:
    """Returns Terrace's Work inside one of torch's; None if there is none."""
    _asked.asking, _asked.inside = True, None
    try:
        holder.get_future()
    except Exception:
        return None
    finally:
        _asked.asking = False
    inside, _asked.inside = _asked.inside, None
    return inside


def forward_questions() -> None:
    """Changes torch's class. May be called again."""
    for name in _QUESTIONS:
        @replaces(dist._Work, name)
        def ask(original: Any, self: Any, *, name: str = name) -> Any:
            inside = _inside(self) if type(self) is dist._Work else None
            return original(self) if inside is None else getattr(inside, name)()

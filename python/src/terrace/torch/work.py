"""Calls of torch that have been started."""
from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

from terrace.communicator import Request


def _seconds(timeout: timedelta | None) -> float | None:
    """torch says 0 or less for none."""
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return seconds if seconds > 0 else None


class Work(dist._Work):  # type: ignore[misc, unused-ignore]
    """One call of torch: the requests, or other works, that it takes, and what is to be done when they are complete.

    A thread that waits moves the requests along itself. Where nobody may be waiting (async_op, futures), the
    communicator's own thread does.
    """

    def __init__(self, parts: Sequence[Request | Work], results: Any, finish: Callable[[], None] | None = None,
                 in_background: bool = False) -> None:
        super().__init__()
        self._parts, self._results, self._finish = list(parts), results, finish
        self._error: BaseException | None = None
        self._lock, self._done = threading.RLock(), threading.Event()
        self._listeners: list[Callable[[BaseException | None], None]] = []
        self._open = 0  # parts that call back
        self._is_background = False
        self._future: Any = None
        if in_background:
            self._move_in_background()

    # ---- completion

    def _move_in_background(self) -> None:
        with self._lock:
            if self._is_background or self._done.is_set():
                return
            self._is_background, self._open = True, len(self._parts)
            parts = list(self._parts)
        if not parts:
            self._complete(None)
        for part in parts:
            part.then(self._one_is_complete)

    def _one_is_complete(self, error: BaseException | None) -> None:
        with self._lock:
            self._error = self._error or error
            self._open -= 1
            if self._open > 0:
                return
        self._complete(self._error)

    def _complete(self, error: BaseException | None) -> None:
        """Copies results to where torch wants them, and tells whoever listens."""
        try:
            if error is None and self._finish is not None:
                self._finish()
        except Exception as e:
            error = e
        with self._lock:
            self._error, self._finish, self._parts = error, None, []
            self._done.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(error)

    def _wait_here(self) -> None:
        error: BaseException | None = None
        for part in self._parts:
            try:
                part.wait()
            except Exception as e:
                error = error or e
        self._complete(error)

    def then(self, done: Callable[[BaseException | None], None]) -> None:
        """Calls done(error) once the call is complete, as Request.then."""
        with self._lock:
            is_complete = self._done.is_set()
            if not is_complete:
                self._listeners.append(done)
        if is_complete:
            done(self._error)
        else:
            self._move_in_background()

    # ---- what torch calls

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns once the call is complete. Raises its error."""
        seconds = _seconds(timeout)
        if seconds is not None:
            self._move_in_background()
        if not self._is_background and not self._done.is_set():
            self._wait_here()
        elif not self._done.wait(seconds):
            raise RuntimeError(f"the call was not complete within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Any:
        """A torch.futures.Future of the results."""
        with self._lock:
            if self._future is not None:
                return self._future
            future = self._future = torch.futures.Future()

        def tell(error: BaseException | None) -> None:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(self._results)

        self.then(tell)
        return future

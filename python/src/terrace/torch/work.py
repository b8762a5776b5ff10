"""Works: calls of torch that have been started."""
from __future__ import annotations

import functools
import socket
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

from terrace._errors import timeout_error
from terrace._requests import ReceiveRequest, Request
from terrace.torch import holders
from terrace.torch.profiling import Event, begun

_HOST = socket.gethostname()


def seconds_of(timeout: timedelta | None) -> float | None:
    """Returns a timeout in seconds; None if there is none, which torch writes as 0 or less."""
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return seconds if seconds > 0 else None


def named(title: str, shown: int | None = 0) -> Callable[[Callable[..., Work]], Callable[..., Work]]:
    """Marks a function that starts a call of torch. `title` is its name in profiles and errors. Profiles show the
    shapes of argument number `shown`."""
    def mark(start: Callable[..., Work]) -> Callable[..., Work]:
        @functools.wraps(start)
        def call(self: Any, *arguments: Any, **more: Any) -> Work:
            began, self._calls = time.perf_counter(), self._calls + 1
            tensors = arguments[shown] if shown is not None and shown < len(arguments) else ()
            event = begun(f"{self.backend_name}:{title}", tensors)
            try:
                work = start(self, *arguments, **more)
            except BaseException as e:
                if event is not None:
                    event.end()
                self.note_failure(e)
                raise
            work.belongs_to(title, self, began, event)
            self._recent.append(work)
            return work
        return call
    return mark


class Work(dist._Work):  # type: ignore[misc, unused-ignore]
    """One call of torch: its requests, or other works, and a function to call when they are complete.

    A waiting thread advances the requests itself. If possibly no thread waits (async_op, futures), the communicator's
    own thread does this.
    """

    on_gpu = False

    def __init__(self, parts: Sequence[Request | Work], results: Any, finish: Callable[[], None] | None = None,
                 in_background: bool = False) -> None:
        super().__init__()
        self._parts, self._results, self._finish = list(parts), results, finish
        self._receive = next((p for p in parts if isinstance(p, ReceiveRequest)), None)
        self._error: BaseException | None = None
        self._lock, self._done = threading.RLock(), threading.Event()
        self._listeners: list[Callable[[BaseException | None], None]] = []
        self._open = 0  # number of parts that have yet to call back
        self._is_background = False
        self._future: Any = None
        self._title, self._rank, self._event = "", -1, None  # type: tuple[str, int, Event | None]
        self._note_failure: Callable[[BaseException | None], None] = lambda error: None
        self._began = self._ended = 0.0
        if in_background:
            self._move_in_background()

    def belongs_to(self, title: str, group: Any, began: float, event: Event | None) -> None:
        """Sets the call's name, and the group that is informed of failed ranks."""
        with self._lock:
            self._title, self._rank, self._began = title, group._comm.rank, began
            is_complete = self._done.is_set()
            if is_complete:
                group.note_failure(self._error)
            else:
                self._event, self._note_failure = event, group.note_failure
        if is_complete and event is not None:
            event.end()

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
        """Copies results to torch's tensors, and calls the listeners."""
        try:
            if error is None and self._finish is not None:
                self._finish()
        except Exception as e:
            error = e
        with self._lock:
            self._error, self._finish, self._parts = error, None, []
            self._ended = time.perf_counter()
            event, self._event = self._event, None
        if event is not None:
            event.end()
        with self._lock:
            self._note_failure(error)
            self._done.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(self.exception())

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
            done(self.exception())
        else:
            self._move_in_background()

    # ---- functions that torch calls

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns once the call is complete. Raises its error."""
        seconds = seconds_of(timeout)
        if seconds is not None:
            self._move_in_background()
        if not self._is_background and not self._done.is_set():
            self._wait_here()
        elif not self._done.wait(seconds):
            raise RuntimeError(f"the call was not complete within {seconds} s")
        self._outcome()
        return True

    def get_future(self) -> Any:
        """Returns a torch.futures.Future of the results. Its errors are of type RuntimeError, with the same text."""
        if holders.is_asking(self):
            return torch.futures.Future()
        with self._lock:
            if self._future is not None:
                return self._future
            complete = torch.futures.Future()
            # C++ only treats exceptions of callbacks as errors: DDP treats the value of set_exception() as a result.
            self._future = complete.then(lambda _: self._outcome())
        self.then(lambda _: complete.set_result(None))
        return self._future

    def _outcome(self) -> Any:
        """Returns the results of a complete call. Raises its error."""
        error = self.exception()
        if error is not None:
            raise error
        return self._results

    # ---- functions that torch calls through holders.py

    def is_completed(self) -> bool:
        """Returns True if the call is complete. From now on, the communicator's own thread advances the call."""
        self._move_in_background()
        return self._done.is_set()

    def is_success(self) -> bool:
        """Returns True if the call is complete without an error."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """Returns the error of a complete call. Its text includes the rank, the host and the call."""
        error = self._error
        if error is not None and self._title and not hasattr(error, "host"):
            what = "timeout in " if isinstance(error, timeout_error) else ""
            error.args = (f"rank {self._rank} on {_HOST}: {what}{self._title}: {error}", *error.args[1:])
            error.rank, error.host = self._rank, _HOST  # type: ignore[attr-defined]
        return error

    def source_rank(self) -> int:
        """Returns the rank that sent the message."""
        if self._receive is None:
            raise RuntimeError("only a receive has a source")
        return self._receive.received.source

    _source_rank = source_rank

    def result(self) -> Any:
        """Returns the tensors that the call has written."""
        return self._results

    def get_duration(self) -> float:
        """Returns the time from the call to its completion [ms]."""
        if not self._done.is_set():
            raise RuntimeError("the call is not complete")
        return 1e3 * (self._ended - self._began)

    _get_duration = get_duration

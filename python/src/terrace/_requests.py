"""Requests: calls that have been started."""
from __future__ import annotations

import itertools
from ctypes import c_int
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from terrace._library import DONE, CReceived, Handle, failure, lib, value_of

if TYPE_CHECKING:
    from terrace._collectives import Collectives


@dataclass(frozen=True)
class Received:
    """The result of a receive."""

    source: int
    count: int


# Callbacks for complete requests, by the number that the library passes back.
_numbers = itertools.count(1)
_waiting: dict[int, tuple[object, Callable[[Exception | None], None]]] = {}


def _call_back(number: int, status: int) -> None:
    _, done = _waiting.pop(number)
    done(failure(status) if status else None)


_CALL_BACK = DONE(_call_back)


class Request(Handle):
    """A call that has been started. It keeps its buffers alive, and uses them until it is complete."""

    _kind = "request"

    def __init__(self, address: int | None, comm: Collectives, buffers: object, on_gpu: bool = False) -> None:
        super().__init__(address)
        self._comm, self._buffers, self.on_gpu = comm, buffers, on_gpu

    def test(self) -> bool:
        """Returns True if the call is complete. Raises the call's error, once."""
        return bool(value_of(c_int, lib.test, self._address))

    def wait(self) -> None:
        """Returns once the call is complete. Raises the call's error, once."""
        lib.wait(self._address)

    def then(self, done: Callable[[Exception | None], None]) -> None:
        """Calls done(error) once, when the call is complete; error is None on success. The thread that completes the
        call runs it, perhaps inside this function: docs/guides/threads.md. `done` should not wait."""
        number = next(_numbers)
        _waiting[number] = self, done
        try:
            lib.then(self._address, _CALL_BACK, number)
        except Exception:
            del _waiting[number]
            raise

    def __del__(self) -> None:
        super().__del__()  # waits; buffers are released after this
        self._buffers = None


class ReceiveRequest(Request):
    """A receive that has been started."""

    def __init__(self, address: int | None, comm: Collectives, buffers: object, got: CReceived) -> None:
        super().__init__(address, comm, (buffers, got))
        self._got = got

    @property
    def received(self) -> Received:
        """The result, once the receive is complete."""
        return Received(self._got.source, self._got.count)

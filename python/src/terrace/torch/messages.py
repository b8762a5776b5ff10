"""Messages and barriers of torch.distributed, over one communicator."""
from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Iterable

from terrace.communicator import ANY_SOURCE
from terrace.torch.devices import Calls, on_host, room_on_host
from terrace.torch.tensors import Tensors, one, raw
from terrace.torch.work import Work, named

# A tag that callers cannot use: torch's tags are nonnegative, and small in practice.
BLOCK_TAG = 2**31 - 1


class Messages(Calls):
    """A mixin for a class of torch's."""

    _timeout: timedelta
    _store: Any
    _barriers = 0  # number of monitored barriers that have begun

    @named("send")
    def send(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        block = on_host(one(tensors))
        return Work([self._comm.send_async(raw(block), rank, tag)], [block], None, True)

    def _recv(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        into = one(tensors)
        room, finish = room_on_host(into)
        return Work([self._comm.recv_async(raw(room), rank, tag)], [into], finish, True)

    recv = named("recv")(_recv)

    @named("recvAnySource")
    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self._recv(tensors, ANY_SOURCE, tag)

    recvAnysource = recv_anysource

    # ---- a barrier that reports missing ranks

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """Rank 0 waits until each rank has an entry in the store, and reports the ranks that are late."""
        rank, size = self._comm.rank, self._comm.size
        timeout = opts if isinstance(opts, timedelta) else getattr(opts, "timeout", self._timeout)
        end, self._barriers = time.monotonic() + timeout.total_seconds(), self._barriers + 1
        room = f"monitored_barrier/{self._barriers}/"
        milliseconds = f"{timeout.total_seconds() * 1000:.0f} ms"
        if rank != 0:
            self._store.put(f"{room}{rank}", b"1")
            if self._missing(f"{room}all", [""], end):
                raise RuntimeError(f"Rank {rank} successfully reached monitoredBarrier, but received errors while "
                                   f"waiting for send/recv from rank 0: it has not answered in {milliseconds}. Its own "
                                   "error says which rank it waits for")
            return
        if timeout.total_seconds() <= 0:
            raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {milliseconds}")
        missing = self._missing(room, map(str, range(1, size)), end)
        if missing:
            names = ", ".join(missing if wait_all_ranks else missing[:1])
            many = wait_all_ranks and len(missing) > 1
            raise RuntimeError(f"Rank 0: {'Ranks' if many else 'Rank'} {names} failed to pass monitoredBarrier in "
                               f"{milliseconds}")
        self._store.put(f"{room}all", b"1")
        for key in [f"{room}{r}" for r in range(1, size)] + [f"monitored_barrier/{self._barriers - 1}/all"]:
            self._store.remove(key)  # all ranks have seen these

    def _missing(self, room: str, wanted: Iterable[str], end: float) -> list[str]:
        """Returns the keys that are still not in the store at `end`."""
        waiting, pause = list(wanted), 0.0002
        while True:
            waiting = [key for key in waiting if self._store.get(room + key) is None]
            if not waiting or time.monotonic() > end:
                return waiting
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    monitoredBarrier = monitored_barrier

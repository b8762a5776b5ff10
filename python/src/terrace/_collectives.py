"""The collectives of a communicator, described in docs/collectives."""
from __future__ import annotations

from ctypes import byref, c_int64, c_void_p
from dataclasses import replace
from typing import Any, Sequence

from terrace._buffers import AnyBuffer, Buffer, buffer_of
from terrace._errors import usage_error
from terrace._library import Handle, lib
from terrace._requests import Request
from terrace.reductions import ELEMENT_TYPES, AnyReduction, number_of, to_c


def _counts(values: Sequence[int], size: int) -> Any:
    if len(values) != size:
        raise usage_error(f"{len(values)} counts for {size} ranks")
    return (c_int64 * size)(*values)


def _blocks(whole: Buffer, size: int, name: str) -> int:
    if whole.count % size:
        raise usage_error(f"{name} has {whole.count} elements, which are no {size} equal blocks")
    return whole.count // size


def same_type(*buffers: Buffer) -> int:
    if len({b.type for b in buffers}) > 1:
        raise usage_error(f"the buffers have different types: {', '.join(b.type for b in buffers)}")
    return number_of(ELEMENT_TYPES, buffers[0].type, "element type")


def _expect(name: str, count: int, wanted: int) -> None:
    if count != wanted:
        raise usage_error(f"{name} has {count} elements, {wanted} are needed")


class Collectives(Handle):
    """The collectives of a communicator."""

    rank: int
    size: int

    has_device = False  #: True if buffers may be on a GPU

    def _buffer(self, buffer: AnyBuffer, type: str | None = None, writable: bool = False) -> Buffer:
        return buffer_of(buffer, type, writable, on_gpu=self.has_device)

    def _run(self, function: Any, *arguments: Any) -> None:
        function(self._open(), *arguments, None)

    def _start(self, buffers: Sequence[Buffer], function: Any, *arguments: Any) -> Request:
        out = c_void_p()
        function(self._open(), *arguments, byref(out))
        return Request(out.value, self, buffers, any(b.on_gpu for b in buffers))

    def _open(self) -> int:
        if self._address is None:
            raise usage_error("the communicator is closed")
        return self._address

    # ---- reductions

    def _allreduce(self, send: AnyBuffer, recv: AnyBuffer, op: AnyReduction, type: str | None) -> tuple[Any, ...]:
        to = self._buffer(send if recv is None else recv, type, writable=True)
        by = to if recv is None else self._buffer(send, type)
        _expect("recv", to.count, by.count)
        return (by, to), lib.allreduce, by.address, to.address, by.count, same_type(by, to), to_c(op)

    def allreduce(self, send: AnyBuffer, recv: AnyBuffer = None, op: AnyReduction = "sum", *,
                  type: str | None = None) -> None:
        """Sets recv[i] to the reduction of send[i] over all ranks; without recv, in place."""
        self._run(*self._allreduce(send, recv, op, type)[1:])

    def allreduce_async(self, send: AnyBuffer, recv: AnyBuffer = None, op: AnyReduction = "sum", *,
                        type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._allreduce(send, recv, op, type))

    def _reduce_scatter(self, send: AnyBuffer, recv: AnyBuffer, op: AnyReduction, counts: Sequence[int] | None,
                        type: str | None) -> tuple[Any, ...]:
        by, to = self._buffer(send, type), self._buffer(recv, type, writable=True)
        function, count = self._block_count(lib.reduce_scatter, by, to, counts, ("send", "recv"))
        return (by, to), function, by.address, to.address, count, same_type(by, to), to_c(op)

    def _block_count(self, function: Any, whole: Buffer, own: Buffer, counts: Sequence[int] | None,
                     names: tuple[str, str]) -> tuple[Any, Any]:
        """Returns the function and its count: for equal blocks, or for blocks with counts by rank."""
        if counts is None:
            _expect(names[1], own.count, _blocks(whole, self.size, names[0]))
            return function, own.count
        _expect(names[0], whole.count, sum(counts))
        _expect(names[1], own.count, counts[self.rank])
        return getattr(lib, function.__name__.removeprefix("terrace_") + "_blocks"), _counts(counts, self.size)

    def reduce_scatter(self, send: AnyBuffer, recv: AnyBuffer, op: AnyReduction = "sum", *,
                       counts: Sequence[int] | None = None, type: str | None = None) -> None:
        """Sets recv to this rank's block of the reduction of send; counts: elements of each rank's block."""
        self._run(*self._reduce_scatter(send, recv, op, counts, type)[1:])

    def reduce_scatter_async(self, send: AnyBuffer, recv: AnyBuffer, op: AnyReduction = "sum", *,
                             counts: Sequence[int] | None = None, type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._reduce_scatter(send, recv, op, counts, type))

    def _reduce(self, send: AnyBuffer, recv: AnyBuffer, root: int, op: AnyReduction,
                type: str | None) -> tuple[Any, ...]:
        by = self._buffer(send, type)
        if self.rank != root:
            return (by,), lib.reduce, by.address, None, by.count, same_type(by), root, to_c(op)
        to = self._buffer(recv, type, writable=True)
        _expect("recv", to.count, by.count)
        return (by, to), lib.reduce, by.address, to.address, by.count, same_type(by, to), root, to_c(op)

    def reduce(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, op: AnyReduction = "sum", *,
               type: str | None = None) -> None:
        """Sets recv on rank `root` to the reduction of send. Other ranks do not use recv."""
        self._run(*self._reduce(send, recv, root, op, type)[1:])

    def reduce_async(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, op: AnyReduction = "sum", *,
                     type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._reduce(send, recv, root, op, type))

    def allreduce_keeping_errors(self, send: AnyBuffer, recv: AnyBuffer, rounding_errors: AnyBuffer, *,
                                 type: str | None = None) -> Request:
        """Starts an allreduce of a sum, and adds to `rounding_errors` this rank's rounding errors on the wire."""
        by, to = self._buffer(send, type), self._buffer(recv, type, writable=True)
        lost = self._buffer(rounding_errors, type, writable=True)
        _expect("recv", to.count, by.count)
        _expect("rounding_errors", lost.count, by.count)
        return self._start((by, to, lost), lib.allreduce_keeping_errors, by.address, to.address, by.count,
                           same_type(by, to, lost), lost.address)

    # ---- collectives without reductions

    def _broadcast(self, data: AnyBuffer, root: int, type: str | None) -> tuple[Any, ...]:
        to = self._buffer(data, type, writable=self.rank != root)
        return (to,), lib.broadcast, to.address, to.count, same_type(to), root

    def broadcast(self, data: AnyBuffer, root: int = 0, *, type: str | None = None) -> None:
        """Sets data to data of rank `root`."""
        self._run(*self._broadcast(data, root, type)[1:])

    def broadcast_async(self, data: AnyBuffer, root: int = 0, *, type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._broadcast(data, root, type))

    def _allgather(self, send: AnyBuffer, recv: AnyBuffer, counts: Sequence[int] | None,
                   type: str | None) -> tuple[Any, ...]:
        by, to = self._buffer(send, type), self._buffer(recv, type, writable=True)
        function, count = self._block_count(lib.allgather, to, by, counts, ("recv", "send"))
        return (by, to), function, by.address, to.address, count, same_type(by, to)

    def allgather(self, send: AnyBuffer, recv: AnyBuffer, *, counts: Sequence[int] | None = None,
                  type: str | None = None) -> None:
        """Sets recv to the blocks of all ranks, by rank; counts: elements of each rank's block."""
        self._run(*self._allgather(send, recv, counts, type)[1:])

    def allgather_async(self, send: AnyBuffer, recv: AnyBuffer, *, counts: Sequence[int] | None = None,
                        type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._allgather(send, recv, counts, type))

    def _alltoall(self, send: AnyBuffer, recv: AnyBuffer, type: str | None) -> tuple[Any, ...]:
        by, to = self._buffer(send, type), self._buffer(recv, type, writable=True)
        _expect("recv", to.count, by.count)
        count = _blocks(by, self.size, "send")
        return (by, to), lib.alltoall, by.address, to.address, count, same_type(by, to)

    def alltoall(self, send: AnyBuffer, recv: AnyBuffer, *, type: str | None = None) -> None:
        """Sends block r of send to rank r. Does not work in place."""
        self._run(*self._alltoall(send, recv, type)[1:])

    def alltoall_async(self, send: AnyBuffer, recv: AnyBuffer, *, type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._alltoall(send, recv, type))

    def _rooted(self, function: Any, own: Buffer, whole: AnyBuffer, is_send: bool, root: int,
                counts: Sequence[int] | None, type: str | None) -> tuple[Any, ...]:
        """Returns the parts of a gather or scatter call. Only the root has the buffer of all blocks."""
        names = ("send", "recv") if is_send else ("recv", "send")
        if self.rank == root:
            at = self._buffer(whole, type, writable=not is_send)
            function, count = self._block_count(function, at, own, counts, names)
            keep, address = (own, at), at.address
        else:
            function, count = self._block_count(
                function, replace(own, count=own.count * self.size if counts is None else sum(counts)), own, counts,
                names)
            keep, address = (own, own), None
        pair = (address, own.address) if is_send else (own.address, address)
        return keep, function, *pair, count, same_type(*keep), root

    def gather(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, *, counts: Sequence[int] | None = None,
               type: str | None = None) -> None:
        """Sets recv on rank `root` to the blocks of all ranks, by rank."""
        self._run(*self._rooted(lib.gather, self._buffer(send, type), recv, False, root, counts, type)[1:])

    def gather_async(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, *,
                     counts: Sequence[int] | None = None, type: str | None = None) -> Request:
        """Starts the same call."""
        return self._start(*self._rooted(lib.gather, self._buffer(send, type), recv, False, root, counts, type))

    def scatter(self, send: AnyBuffer, recv: AnyBuffer, root: int = 0, *, counts: Sequence[int] | None = None,
                type: str | None = None) -> None:
        """Sets recv to this rank's block of send on rank `root`. Other ranks do not use send."""
        own = self._buffer(recv, type, writable=True)
        self._run(*self._rooted(lib.scatter, own, send, True, root, counts, type)[1:])

    def scatter_async(self, send: AnyBuffer, recv: AnyBuffer, root: int = 0, *, counts: Sequence[int] | None = None,
                      type: str | None = None) -> Request:
        """Starts the same call."""
        own = self._buffer(recv, type, writable=True)
        return self._start(*self._rooted(lib.scatter, own, send, True, root, counts, type))

    # ---- blocks of any lengths: each rank knows only the lengths of the blocks that it sends

    def alltoallv(self, send: AnyBuffer, send_counts: Sequence[int], recv: AnyBuffer, most: int, *,
                  type: str | None = None) -> list[int]:
        """Sends send_counts[r] elements to rank r; no block of any rank is longer than `most`. Returns the counts
        received, by rank; their blocks are side by side in recv."""
        by, to = self._buffer(send, type), self._buffer(recv, type, writable=True)
        _expect("send", by.count, sum(send_counts))
        came = _counts([0] * self.size, self.size)
        lib.alltoallv(self._open(), by.address, _counts(send_counts, self.size), to.address, to.count, came, most,
                      same_type(by, to))
        return list(came)

    def gatherv(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, *, type: str | None = None) -> list[int]:
        """Gathers blocks of any lengths. Returns the counts by rank on the root, and an empty list on other ranks."""
        by = self._buffer(send, type)
        if self.rank != root:
            lib.gatherv(self._open(), by.address, by.count, None, 0, None, same_type(by), root)
            return []
        to, came = self._buffer(recv, type, writable=True), _counts([0] * self.size, self.size)
        lib.gatherv(self._open(), by.address, by.count, to.address, to.count, came, same_type(by, to), root)
        return list(came)

    def scatterv(self, send: AnyBuffer, send_counts: Sequence[int] | None, recv: AnyBuffer, root: int = 0, *,
                 type: str | None = None) -> int:
        """Scatters blocks of any lengths, which only the root knows. Returns the count of this rank's block."""
        to, count = self._buffer(recv, type, writable=True), c_int64()
        by, lengths = to, None
        if self.rank == root:
            by, lengths = self._buffer(send, type), _counts(send_counts or [], self.size)
        lib.scatterv(self._open(), by.address, lengths, to.address, to.count, same_type(by, to), root, byref(count))
        return count.value

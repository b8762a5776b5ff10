"""Communicators, requests and windows: docs/collectives says what each call does."""
from __future__ import annotations

import ctypes
import itertools
from ctypes import byref, c_char_p, c_double, c_int, c_int64, c_void_p
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Protocol, Sequence

from terrace._buffers import AnyBuffer, Buffer, buffer_of
from terrace._errors import usage_error
from terrace._library import DONE, GET, PUT, REMOVE, CReceived, CStore, Handle, failure, lib, made_by
from terrace.reductions import ELEMENT_TYPES, AnyReduction, number_of, to_c
from terrace.settings import AnyPlan, Options, plan_of

#: The source of a receive that accepts messages of all ranks.
ANY_SOURCE = -1


class Store(Protocol):
    """Values by key, which all ranks of a job reach: where ranks without MPI find one another."""

    def put(self, key: str, value: bytes) -> None:
        """Publishes a value; replaces that of the same key."""

    def get(self, key: str) -> bytes | None:
        """The value of a key, None where there is none yet. Does not wait."""

    def remove(self, key: str) -> None:
        """Removes a value."""


@dataclass(frozen=True)
class Received:
    """What a receive got."""

    source: int
    count: int


# What is to be called when requests are complete, by the number that the library passes back.
_numbers = itertools.count(1)
_waiting: dict[int, tuple[object, Callable[[Exception | None], None]]] = {}


def _call_back(number: int, status: int) -> None:
    _, done = _waiting.pop(number)
    done(failure(status) if status else None)


_CALL_BACK = DONE(_call_back)


class Request(Handle):
    """A call that has been started. Its buffers are kept alive and belong to it until it is complete."""

    _kind = "request"

    def __init__(self, address: int | None, comm: Communicator, buffers: object) -> None:
        super().__init__(address)
        self._comm, self._buffers = comm, buffers

    def test(self) -> bool:
        """Whether the call is complete. Raises the call's error, once."""
        complete = c_int()
        lib.test(self._address, byref(complete))
        return bool(complete.value)

    def wait(self) -> None:
        """Returns once the call is complete. Raises the call's error, once."""
        lib.wait(self._address)

    def then(self, done: Callable[[Exception | None], None]) -> None:
        """Calls done(error) once when the call is complete; error is None if all is well. By whichever thread moves the
        call along, perhaps inside this function: docs/guides/threads.md. It should not wait."""
        number = next(_numbers)
        _waiting[number] = self, done
        try:
            lib.then(self._address, _CALL_BACK, number)
        except Exception:
            del _waiting[number]
            raise

    def __del__(self) -> None:
        super().__del__()  # waits; only then are buffers let go
        self._buffers = None


class ReceiveRequest(Request):
    """A receive that has been started."""

    def __init__(self, address: int | None, comm: Communicator, buffers: object, got: CReceived) -> None:
        super().__init__(address, comm, (buffers, got))
        self._got = got

    @property
    def received(self) -> Received:
        """What it got, once it is complete."""
        return Received(self._got.source, self._got.count)


class Window(Handle):
    """Memory that ranks of a node reach, zeroed: calls on it copy nothing inside a node. A buffer for calls, and for
    numpy.asarray()."""

    _kind = "window"

    def __init__(self, address: int | None, count: int, element_type: str) -> None:
        super().__init__(address)
        self.count, self.type = count, element_type
        size = lib.size_of(ELEMENT_TYPES[element_type])
        kind = {"boolean": "b", "bfloat16": "V"}.get(element_type, element_type[0])
        order = "|" if size == 1 else "<"
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3, "shape": (count,), "typestr": f"{order}{kind}{size}",
            "data": (lib.window_data(address) or 0, False)}

    @property
    def bytes(self) -> memoryview:
        """The memory as bytes, valid as long as the window."""
        size = self.count * lib.size_of(ELEMENT_TYPES[self.type])
        memory = (ctypes.c_ubyte * size).from_address(self.__array_interface__["data"][0])
        memory.window = self
        return memoryview(memory).cast("B")


def _counts(values: Sequence[int], size: int) -> Any:
    if len(values) != size:
        raise usage_error(f"{len(values)} counts for {size} ranks")
    return (c_int64 * size)(*values)


def _blocks(whole: Buffer, size: int, name: str) -> int:
    if whole.count % size:
        raise usage_error(f"{name} has {whole.count} elements, which are no {size} equal blocks")
    return whole.count // size


def _same_type(*buffers: Buffer) -> int:
    if len({b.type for b in buffers}) > 1:
        raise usage_error(f"the buffers have different types: {', '.join(b.type for b in buffers)}")
    return number_of(ELEMENT_TYPES, buffers[0].type, "element type")


def _expect(name: str, count: int, wanted: int) -> None:
    if count != wanted:
        raise usage_error(f"{name} has {count} elements, {wanted} are needed")


class Communicator(Handle):
    """A set of ranks that run collectives by a plan. Made by create(), mpi.create(), loopback.run() and split().

    Buffers are arrays of numpy, tensors on the host, and whatever has `__array_interface__`, DLPack or the buffer
    protocol; they must be contiguous. `_async` forms return a Request. Used by one thread at a time. Leaving a `with`
    block closes it.
    """

    _kind = "communicator"

    def __init__(self, address: int | None, keep: object = None, borrowed: bool = False) -> None:
        super().__init__(address, borrowed)
        self._keep = keep
        self.rank: int = lib.rank(address)
        self.size: int = lib.size(address)

    def close(self) -> None:
        """Destroys the communicator. Collective, unless it is broken."""
        self._destroy()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, function: Any, *arguments: Any) -> None:
        function(self._open(), *arguments, None)

    def _start(self, buffers: object, function: Any, *arguments: Any) -> Request:
        out = c_void_p()
        function(self._open(), *arguments, byref(out))
        return Request(out.value, self, buffers)

    def _open(self) -> int:
        if self._address is None:
            raise usage_error("the communicator is closed")
        return self._address

    # ---- reductions

    def _allreduce(self, send: AnyBuffer, recv: AnyBuffer, op: AnyReduction, type: str | None) -> tuple[Any, ...]:
        to = buffer_of(send if recv is None else recv, type, writable=True)
        by = to if recv is None else buffer_of(send, type)
        _expect("recv", to.count, by.count)
        return (by, to), lib.allreduce, by.address, to.address, by.count, _same_type(by, to), to_c(op)

    def allreduce(self, send: AnyBuffer, recv: AnyBuffer = None, op: AnyReduction = "sum", *,
                  type: str | None = None) -> None:
        """Sets recv[i] to the reduction of send[i] over all ranks; without recv, in place."""
        self._run(*self._allreduce(send, recv, op, type)[1:])

    def allreduce_async(self, send: AnyBuffer, recv: AnyBuffer = None, op: AnyReduction = "sum", *,
                        type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._allreduce(send, recv, op, type))

    def _reduce_scatter(self, send: AnyBuffer, recv: AnyBuffer, op: AnyReduction, counts: Sequence[int] | None,
                        type: str | None) -> tuple[Any, ...]:
        by, to = buffer_of(send, type), buffer_of(recv, type, writable=True)
        function, count = self._block_count(lib.reduce_scatter, by, to, counts, ("send", "recv"))
        return (by, to), function, by.address, to.address, count, _same_type(by, to), to_c(op)

    def _block_count(self, function: Any, whole: Buffer, own: Buffer, counts: Sequence[int] | None,
                     names: tuple[str, str]) -> tuple[Any, Any]:
        """The form for equal blocks with their count, or the one for blocks by rank."""
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
        """Starts the same."""
        return self._start(*self._reduce_scatter(send, recv, op, counts, type))

    def _reduce(self, send: AnyBuffer, recv: AnyBuffer, root: int, op: AnyReduction,
                type: str | None) -> tuple[Any, ...]:
        by = buffer_of(send, type)
        if self.rank != root:
            return (by,), lib.reduce, by.address, None, by.count, _same_type(by), root, to_c(op)
        to = buffer_of(recv, type, writable=True)
        _expect("recv", to.count, by.count)
        return (by, to), lib.reduce, by.address, to.address, by.count, _same_type(by, to), root, to_c(op)

    def reduce(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, op: AnyReduction = "sum", *,
               type: str | None = None) -> None:
        """Sets recv on rank `root` to the reduction of send; elsewhere recv is not used."""
        self._run(*self._reduce(send, recv, root, op, type)[1:])

    def reduce_async(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, op: AnyReduction = "sum", *,
                     type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._reduce(send, recv, root, op, type))

    # ---- what only moves

    def _broadcast(self, data: AnyBuffer, root: int, type: str | None) -> tuple[Any, ...]:
        to = buffer_of(data, type, writable=self.rank != root)
        return (to,), lib.broadcast, to.address, to.count, _same_type(to), root

    def broadcast(self, data: AnyBuffer, root: int = 0, *, type: str | None = None) -> None:
        """Sets data to data of rank `root`."""
        self._run(*self._broadcast(data, root, type)[1:])

    def broadcast_async(self, data: AnyBuffer, root: int = 0, *, type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._broadcast(data, root, type))

    def _allgather(self, send: AnyBuffer, recv: AnyBuffer, counts: Sequence[int] | None,
                   type: str | None) -> tuple[Any, ...]:
        by, to = buffer_of(send, type), buffer_of(recv, type, writable=True)
        function, count = self._block_count(lib.allgather, to, by, counts, ("recv", "send"))
        return (by, to), function, by.address, to.address, count, _same_type(by, to)

    def allgather(self, send: AnyBuffer, recv: AnyBuffer, *, counts: Sequence[int] | None = None,
                  type: str | None = None) -> None:
        """Sets recv to the blocks of all ranks, by rank; counts: elements of each rank's block."""
        self._run(*self._allgather(send, recv, counts, type)[1:])

    def allgather_async(self, send: AnyBuffer, recv: AnyBuffer, *, counts: Sequence[int] | None = None,
                        type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._allgather(send, recv, counts, type))

    def _alltoall(self, send: AnyBuffer, recv: AnyBuffer, type: str | None) -> tuple[Any, ...]:
        by, to = buffer_of(send, type), buffer_of(recv, type, writable=True)
        _expect("recv", to.count, by.count)
        count = _blocks(by, self.size, "send")
        return (by, to), lib.alltoall, by.address, to.address, count, _same_type(by, to)

    def alltoall(self, send: AnyBuffer, recv: AnyBuffer, *, type: str | None = None) -> None:
        """Sends block r of send to rank r. Not in place."""
        self._run(*self._alltoall(send, recv, type)[1:])

    def alltoall_async(self, send: AnyBuffer, recv: AnyBuffer, *, type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._alltoall(send, recv, type))

    def _rooted(self, function: Any, own: Buffer, whole: AnyBuffer, is_send: bool, root: int,
                counts: Sequence[int] | None, type: str | None) -> tuple[Any, ...]:
        """gather and scatter: the root alone has the buffer of all blocks."""
        names = ("send", "recv") if is_send else ("recv", "send")
        if self.rank == root:
            at = buffer_of(whole, type, writable=not is_send)
            function, count = self._block_count(function, at, own, counts, names)
            keep, address = (own, at), at.address
        else:
            function, count = self._block_count(
                function, replace(own, count=own.count * self.size if counts is None else sum(counts)), own, counts,
                names)
            keep, address = (own, own), None
        pair = (address, own.address) if is_send else (own.address, address)
        return keep, function, *pair, count, _same_type(*keep), root

    def gather(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, *, counts: Sequence[int] | None = None,
               type: str | None = None) -> None:
        """Sets recv on rank `root` to the blocks of all ranks, by rank."""
        self._run(*self._rooted(lib.gather, buffer_of(send, type), recv, False, root, counts, type)[1:])

    def gather_async(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, *,
                     counts: Sequence[int] | None = None, type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._rooted(lib.gather, buffer_of(send, type), recv, False, root, counts, type))

    def scatter(self, send: AnyBuffer, recv: AnyBuffer, root: int = 0, *, counts: Sequence[int] | None = None,
                type: str | None = None) -> None:
        """Sets recv to this rank's block of send of rank `root`; elsewhere send is not used."""
        own = buffer_of(recv, type, writable=True)
        self._run(*self._rooted(lib.scatter, own, send, True, root, counts, type)[1:])

    def scatter_async(self, send: AnyBuffer, recv: AnyBuffer, root: int = 0, *, counts: Sequence[int] | None = None,
                      type: str | None = None) -> Request:
        """Starts the same."""
        own = buffer_of(recv, type, writable=True)
        return self._start(*self._rooted(lib.scatter, own, send, True, root, counts, type))

    # ---- blocks of lengths that each rank knows of its own alone

    def alltoallv(self, send: AnyBuffer, send_counts: Sequence[int], recv: AnyBuffer, most: int, *,
                  type: str | None = None) -> list[int]:
        """Sends send_counts[r] elements to rank r; no block of any rank is longer than `most`. Returns the counts that
        came, by rank; their blocks are side by side in recv."""
        by, to = buffer_of(send, type), buffer_of(recv, type, writable=True)
        _expect("send", by.count, sum(send_counts))
        came = _counts([0] * self.size, self.size)
        lib.alltoallv(self._open(), by.address, _counts(send_counts, self.size), to.address, to.count, came, most,
                      _same_type(by, to))
        return list(came)

    def gatherv(self, send: AnyBuffer, recv: AnyBuffer = None, root: int = 0, *, type: str | None = None) -> list[int]:
        """Gathers blocks of any lengths. Returns the counts by rank on the root, and nothing elsewhere."""
        by = buffer_of(send, type)
        if self.rank != root:
            lib.gatherv(self._open(), by.address, by.count, None, 0, None, _same_type(by), root)
            return []
        to, came = buffer_of(recv, type, writable=True), _counts([0] * self.size, self.size)
        lib.gatherv(self._open(), by.address, by.count, to.address, to.count, came, _same_type(by, to), root)
        return list(came)

    def scatterv(self, send: AnyBuffer, send_counts: Sequence[int] | None, recv: AnyBuffer, root: int = 0, *,
                 type: str | None = None) -> int:
        """Scatters blocks of any lengths, which the root alone knows. Returns the count of this rank's block."""
        to, count = buffer_of(recv, type, writable=True), c_int64()
        by, lengths = to, None
        if self.rank == root:
            by, lengths = buffer_of(send, type), _counts(send_counts or [], self.size)
        lib.scatterv(self._open(), by.address, lengths, to.address, to.count, _same_type(by, to), root, byref(count))
        return count.value

    # ---- barrier, groups, messages

    def barrier(self) -> None:
        """Returns once every rank has called it."""
        self._run(lib.barrier)

    def barrier_async(self) -> Request:
        """Starts the same."""
        return self._start((), lib.barrier)

    def group(self) -> _Group:
        """A `with` block whose `_async` calls begin together at its end: docs/guides/groups.md."""
        return _Group(self)

    def _send(self, data: AnyBuffer, to: int, tag: int, type: str | None) -> tuple[Any, ...]:
        by = buffer_of(data, type)
        return (by,), lib.send, by.address, by.count, _same_type(by), to, tag

    def send(self, data: AnyBuffer, to: int, tag: int = 0, *, type: str | None = None) -> None:
        """Sends data to rank `to`."""
        self._run(*self._send(data, to, tag, type)[1:])

    def send_async(self, data: AnyBuffer, to: int, tag: int = 0, *, type: str | None = None) -> Request:
        """Starts the same."""
        return self._start(*self._send(data, to, tag, type))

    def recv(self, data: AnyBuffer, source: int = ANY_SOURCE, tag: int = 0, *, type: str | None = None) -> Received:
        """Receives a message of rank `source`, or of any, into data."""
        request = self.recv_async(data, source, tag, type=type)
        request.wait()
        return request.received

    def recv_async(self, data: AnyBuffer, source: int = ANY_SOURCE, tag: int = 0, *,
                   type: str | None = None) -> ReceiveRequest:
        """Starts the same."""
        to, got, out = buffer_of(data, type, writable=True), CReceived(-1, 0), c_void_p()
        lib.recv(self._open(), to.address, to.count, _same_type(to), source, tag, byref(got), byref(out))
        return ReceiveRequest(out.value, self, to, got)

    # ---- windows and parts

    def allocate(self, count: int, type: str = "float32") -> Window:
        """Allocates a window of `count` elements. Collective."""
        number = number_of(ELEMENT_TYPES, type, "element type")
        return Window(made_by(lib.allocate, self._open(), count, number), count, type)

    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Makes a communicator of the ranks with the same color, by ascending key. None where the color is negative.
        Collective."""
        address = made_by(lib.split, self._open(), color, key)
        return Communicator(address, self._keep) if address else None

    def split_by_node(self, key: int = 0) -> Communicator:
        """Makes a communicator of the ranks on this rank's machine node. Collective."""
        return Communicator(made_by(lib.split_by_node, self._open(), key), self._keep)

    def shape(self, bytes: int) -> str:
        """The stages of an allreduce of so many bytes, the innermost first."""
        text = c_char_p()
        lib.shape(self._open(), bytes, byref(text))
        return (text.value or b"").decode()

    def predicted(self, bytes: int) -> float:
        """The time that the plan predicts for an allreduce of so many bytes [s]; 0 if it predicts none."""
        seconds = c_double()
        lib.predicted(self._open(), bytes, byref(seconds))
        return seconds.value

    def __repr__(self) -> str:
        return f"<terrace.Communicator: rank {self.rank} of {self.size}>"


class _Group:
    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __enter__(self) -> None:
        lib.group_start(self._comm._open())

    def __exit__(self, *_: object) -> None:
        lib.group_end(self._comm._open())


def _store_struct(store: Store, rank: int, size: int, raised: list[BaseException]) -> Any:
    held: dict[str, bytes] = {}  # what `get` has handed out

    def guarded(action: Callable[..., int]) -> Callable[..., int]:
        def run(user: object, key: bytes, *arguments: Any) -> int:
            try:
                return action(key.decode(), *arguments)
            except BaseException as e:
                raised.append(e)
                return -1
        return run

    def put(key: str, value: int, count: int) -> int:
        store.put(key, ctypes.string_at(value, count))
        return 0

    def get(key: str, value: Any, count: Any) -> int:
        found = store.get(key)
        if found is None:
            return 0
        held["last"] = found
        value[0] = ctypes.cast(c_char_p(found), c_void_p).value
        count[0] = len(found)
        return 1

    def remove(key: str) -> int:
        store.remove(key)
        return 0

    return CStore(rank, size, None, PUT(guarded(put)), GET(guarded(get)), REMOVE(guarded(remove)))


def create(store: Store | None = None, rank: int = 0, size: int = 1, *, plan: AnyPlan | None = None,
           options: Options | None = None) -> Communicator:
    """Makes a communicator without MPI, over UCX and shared memory. Collective.

    Ranks find one another as the options say (by default TERRACE_BOOTSTRAP: PMIx, or a directory), or in `store`, in
    which this is rank `rank` of `size`. Without a plan, and without TERRACE_PLAN, one is made for the job.
    """
    with_options = options or Options(from_environment=True)
    planned = plan_of(plan) if plan is not None else None
    handles = (with_options._address, planned._address if planned else None)
    if store is None:
        return Communicator(made_by(lib.ucx_create, *handles), with_options)
    raised: list[BaseException] = []
    struct = _store_struct(store, rank, size, raised)
    try:
        address = made_by(lib.ucx_create_in_store, byref(struct), *handles)
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    return Communicator(address, (with_options, struct))

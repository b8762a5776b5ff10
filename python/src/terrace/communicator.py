"""Communicators."""
from __future__ import annotations

import contextlib
import json
from ctypes import byref, c_char_p, c_double, c_void_p
from typing import Any, Callable, Iterator, cast

from terrace._buffers import AnyBuffer, buffer_of
from terrace._collectives import Collectives, same_type
from terrace._library import CReceived, lib, made_by, value_of
from terrace._requests import Received, ReceiveRequest, Request
from terrace._stores import C10dStore, Store, store_struct
from terrace._windows import Window
from terrace.reductions import ELEMENT_TYPES, number_of
from terrace.settings import AnyPlan, Options, plan_of

#: Buffers must be in host memory.
NO_DEVICE = -2
#: The GPU with the rank's number on its node.
DEVICE_BY_RANK = -1
#: The source of a receive that accepts messages from all ranks.
ANY_SOURCE = -1


class Communicator(Collectives):
    """A set of ranks that run collectives by a plan, made by create(), mpi.create(), loopback.run() or split().

    Buffers are numpy arrays, tensors, and other objects with `__array_interface__`, DLPack or the buffer protocol;
    after use_device() also with `__cuda_array_interface__`. They must be contiguous. `_async` forms return a Request.
    Only one thread at a time may use a communicator. The end of a `with` block closes it.
    """

    _kind = "communicator"

    def __init__(self, address: int | None, keep: object = None, borrowed: bool = False,
                 has_device: bool = False) -> None:
        super().__init__(address, borrowed)
        self._keep, self.has_device = keep, has_device
        self.rank: int = lib.rank(address)
        self.size: int = lib.size(address)
        self._before_close: Callable[[], None] = lambda: None  # waits for calls of other threads

    def close(self) -> None:
        """Destroys the communicator. Collective, unless it is broken."""
        try:
            self._before_close()
        finally:
            self._destroy()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- barrier, groups, messages

    def barrier(self) -> None:
        """Returns once every rank has called it."""
        self._run(lib.barrier)

    def barrier_async(self) -> Request:
        """Starts a barrier."""
        return self._start((), lib.barrier)

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """A `with` block whose `_async` calls start together at its end: docs/guides/groups.md."""
        lib.group_start(self._open())
        try:
            yield
        finally:
            lib.group_end(self._open())

    def _send(self, data: AnyBuffer, to: int, tag: int, type: str | None) -> tuple[Any, ...]:
        by = buffer_of(data, type)
        return (by,), lib.send, by.address, by.count, same_type(by), to, tag

    def send(self, data: AnyBuffer, to: int, tag: int = 0, *, type: str | None = None) -> None:
        """Sends data to rank `to`."""
        self._run(*self._send(data, to, tag, type)[1:])

    def send_async(self, data: AnyBuffer, to: int, tag: int = 0, *, type: str | None = None) -> Request:
        """Starts the same send."""
        return self._start(*self._send(data, to, tag, type))

    def recv(self, data: AnyBuffer, source: int = ANY_SOURCE, tag: int = 0, *, type: str | None = None) -> Received:
        """Receives a message from rank `source`, or from any rank, into data."""
        request = self.recv_async(data, source, tag, type=type)
        request.wait()
        return request.received

    def recv_async(self, data: AnyBuffer, source: int = ANY_SOURCE, tag: int = 0, *,
                   type: str | None = None) -> ReceiveRequest:
        """Starts the same receive."""
        to, got, out = buffer_of(data, type, writable=True), CReceived(-1, 0), c_void_p()
        lib.recv(self._open(), to.address, to.count, same_type(to), source, tag, byref(got), byref(out))
        return ReceiveRequest(out.value, self, to, got)

    # ---- GPUs

    def use_device(self, device: int = DEVICE_BY_RANK) -> None:
        """Allows buffers on this GPU of the rank, also in communicators made from this one later. Collective. On
        failure the communicator is unchanged."""
        lib.use_device(self._open(), device)
        self.has_device = True

    @property
    def device_stream(self) -> int:
        """The address of the stream (cudaStream_t) of calls on GPU buffers. Calls run after the work that is already in
        the stream; work that is added later runs after them."""
        return made_by(lib.device_stream, self._open()) or 0

    # ---- windows and parts

    def allocate(self, count: int, type: str = "float32") -> Window:
        """Allocates a window of `count` elements. Collective."""
        number = number_of(ELEMENT_TYPES, type, "element type")
        return Window(made_by(lib.allocate, self._open(), count, number), count, type)

    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Makes a communicator of the ranks with the same color, ordered by key. Returns None if the color is negative.
        Collective."""
        address = made_by(lib.split, self._open(), color, key)
        return Communicator(address, self._keep, has_device=self.has_device) if address else None

    def split_by_node(self, key: int = 0) -> Communicator:
        """Makes a communicator of the ranks on the same machine node. Collective."""
        return Communicator(made_by(lib.split_by_node, self._open(), key), self._keep, has_device=self.has_device)

    def shrink(self) -> Communicator:
        """Makes a communicator of the ranks that have not failed, after rank_failed_error. Collective among these."""
        return Communicator(made_by(lib.shrink, self._open()), self._keep, has_device=self.has_device)

    def set_timeout(self, seconds: float) -> None:
        """Replaces the timeout of the options from now on, also for calls in flight; 0: no limit. Local."""
        lib.set_timeout(self._open(), seconds)

    def abort(self) -> None:
        """Ends all calls of this rank without waiting for other ranks. The communicator is broken afterwards. Local;
        any thread may call this."""
        lib.abort(self._open())

    def shape(self, bytes: int) -> str:
        """Returns the stages of an allreduce of `bytes` bytes, the innermost first."""
        return str((value_of(c_char_p, lib.shape, self._open(), bytes) or b"").decode())

    def statistics(self) -> dict[str, Any]:
        """Returns this rank's calls so far, and its waiting time for each rank: docs/guides/slow-ranks.md."""
        return cast("dict[str, Any]", json.loads(value_of(c_char_p, lib.statistics, self._open()) or b""))

    def predicted(self, bytes: int) -> float:
        """Returns the plan's predicted time for an allreduce of `bytes` bytes [s]; 0 without a prediction."""
        return float(value_of(c_double, lib.predicted, self._open(), bytes))

    def __repr__(self) -> str:
        return f"<terrace.Communicator: rank {self.rank} of {self.size}>"


def create(store: Any = None, rank: int = 0, size: int = 1, *, plan: AnyPlan | None = None,
           options: Options | None = None, device: int = NO_DEVICE) -> Communicator:
    """Makes a communicator without MPI, over UCX and shared memory. Collective.

    Ranks find one another as the options define (by default TERRACE_BOOTSTRAP: PMIx, or a directory), or through
    `store`, as rank `rank` of `size`: a Store, or a store of torch.distributed. Without a plan and TERRACE_PLAN, a plan
    is made for the job. With a device, buffers may be in its memory: use_device().
    """
    is_of_torch = hasattr(store, "delete_key")
    made = _create(C10dStore(store) if is_of_torch else store, rank, size, plan, options)
    if device != NO_DEVICE:
        made.use_device(device)
    return made


def _create(store: Store | None, rank: int, size: int, plan: AnyPlan | None, options: Options | None) -> Communicator:
    with_options = options or Options(from_environment=True)
    planned = plan_of(plan) if plan is not None else None
    handles = (with_options._address, planned._address if planned else None)
    if store is None:
        return Communicator(made_by(lib.ucx_create, *handles), with_options)
    raised: list[BaseException] = []
    struct = store_struct(store, rank, size, raised)
    try:
        address = made_by(lib.ucx_create_in_store, byref(struct), *handles)
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    return Communicator(address, (with_options, struct))

"""Gradients that are reduced while the backward pass runs. docs/guides/gradients.md describes the calls."""
from __future__ import annotations

import contextlib
import ctypes
from ctypes import byref, c_int, c_int64, c_void_p
from dataclasses import dataclass
from typing import Callable, Iterator, Mapping, Sequence

from terrace._buffers import AnyBuffer, Buffer, buffer_of
from terrace._errors import usage_error
from terrace._library import (AFTER_EACH, CGradientOptions, CGradientParameter, CGradientTimes, CStateTensor, Handle,
                              lib, made_by, value_of)
from terrace._windows import view_of
from terrace.communicator import Communicator
from terrace.reductions import ELEMENT_TYPES, REDUCE_OPS, number_of

#: Value of bucket_bytes: rank 0 measures, and chooses both sizes.
AUTOMATIC = -1
_UNUSED = {"error": 0, "find": 1, "fixed": 2}


@dataclass(frozen=True)
class Parameter:
    """A parameter: its name, and a buffer for its gradient. Without a buffer, the gradient has `count` elements of
    `type`, which live in a bucket; with `row`, they are rows of `row` elements (sparse)."""

    name: str
    gradient: AnyBuffer = None
    count: int = 0
    type: str = "float32"
    row: int = 0


@dataclass(frozen=True)
class Times:
    """The parts of an iteration's time [s]."""

    compute: float
    communication: float
    hidden: float
    exposed: float
    waiting: float


@dataclass(frozen=True)
class Rows:
    """The rows of a sparse gradient that any rank has: `numbers` in ascending order, and `values` row by row. Valid
    until the next iteration begins."""

    numbers: memoryview
    values: memoryview
    was_dense: bool


class GradientReducer(Handle):
    """Averages the gradients of a model over all ranks, in buckets, while the backward pass runs.

    An iteration is ready(p) once for each parameter, in any order, then finish(). Parameters are identified by index.
    Collective; only the thread that uses the communicator may call it.

    >>> import array, terrace
    >>> def body(comm):
    ...     gradient = array.array("f", [comm.rank, 1])
    ...     reducer = GradientReducer(comm, [("weight", gradient)])
    ...     reducer.ready(0)
    ...     reducer.finish()
    ...     return list(gradient)
    >>> terrace.loopback.run(terrace.plan("package:2"), body)
    [[0.5, 1.0], [0.5, 1.0]]
    """

    _kind = "gradients"

    def __init__(self, comm: Communicator, parameters: Sequence[Parameter | tuple[str, AnyBuffer]], *,
                 bucket_bytes: int | None = None, first_bucket_bytes: int | None = None, op: str = "avg",
                 unused: str = "error", weighted: bool = False, dense_above: float = 0.0, rounds_on_wire: bool = True,
                 error_feedback: bool = False) -> None:
        options: CGradientOptions = lib.gradient_defaults()
        if bucket_bytes is not None:
            options.bucket_bytes = bucket_bytes
        if first_bucket_bytes is not None:
            options.first_bucket_bytes = first_bucket_bytes
        options.op = number_of(REDUCE_OPS, op, "operation")
        options.unused = number_of(_UNUSED, unused, "way to treat unused ones")
        options.weighted, options.dense_above = int(weighted), dense_above
        options.rounds_on_wire, options.error_feedback = int(rounds_on_wire), int(error_feedback)
        self.parameters = [p if isinstance(p, Parameter) else Parameter(*p) for p in parameters]
        self._buffers: list[Buffer | None] = [
            buffer_of(p.gradient, writable=True) if p.gradient is not None else None for p in self.parameters]
        self._types = [b.type if b else p.type for p, b in zip(self.parameters, self._buffers)]
        listed = (CGradientParameter * len(self.parameters))(*(
            CGradientParameter(p.name.encode(), b.count if b else p.count, number_of(ELEMENT_TYPES, t, "element type"),
                               b.address if b else None, p.row)
            for p, b, t in zip(self.parameters, self._buffers, self._types)))
        super().__init__(made_by(lib.gradients_create, comm._open(), listed, len(listed), byref(options)))
        self._comm = comm

    def gradient(self, parameter: int) -> memoryview:
        """Returns the gradient as bytes: the caller's buffer, or its place in its bucket until finish() returns."""
        at = made_by(lib.gradients_at, self._address, parameter)
        buffer, told = self._buffers[parameter], self.parameters[parameter]
        return view_of(at, buffer.count if buffer else told.count, self._types[parameter], self)

    def set_gradient(self, parameter: int, gradient: AnyBuffer) -> None:
        """Replaces the caller's buffer of a gradient."""
        buffer, old = buffer_of(gradient, writable=True), self._buffers[parameter]
        if old is None or (buffer.count, buffer.type) != (old.count, old.type):
            raise usage_error(f'the gradient of "{self.parameters[parameter].name}" has another count or type')
        lib.gradients_set(self._address, parameter, buffer.address)
        self._buffers[parameter] = buffer

    def set_weight(self, weight: float) -> None:
        """Sets the weight of this rank from the next iteration on, with `weighted`."""
        lib.gradients_set_weight(self._address, weight)

    def drop(self, parameters: Sequence[int], root: int | None = None) -> None:
        """Leaves parameters out of the next iteration: the same on all ranks, or those of rank `root`."""
        lib.gradients_drop(self._address, *_indices(parameters), -1 if root is None else root)

    def forward_done(self, used: Sequence[int]) -> None:
        """Declares the parameters that this rank uses in this iteration, with unused="find"."""
        lib.gradients_forward_done(self._address, *_indices(used))

    def ready(self, parameter: int) -> None:
        """Declares a gradient complete on this rank."""
        lib.gradients_ready(self._address, parameter)

    def ready_rows(self, parameter: int, rows: Sequence[int] | AnyBuffer, values: AnyBuffer) -> None:
        """Declares a sparse gradient complete, with its row numbers, and its values row by row."""
        if isinstance(rows, (list, tuple, range)):
            at: object = (c_int64 * len(rows))(*rows)
            count = len(rows)
        else:
            found = buffer_of(rows, "int64")
            at, count = ctypes.cast(found.address, ctypes.POINTER(c_int64)), found.count
        by, row = buffer_of(values), self.parameters[parameter].row
        if by.count != count * row:
            raise usage_error(f"{by.count} values for {count} rows of {row}")
        lib.gradients_ready_rows(self._address, parameter, at, count, by.address,
                                 number_of(ELEMENT_TYPES, by.type, "element type"))

    def rows(self, parameter: int) -> Rows:
        """Returns the result of a sparse gradient."""
        numbers, values, count, dense = c_void_p(), c_void_p(), c_int64(), c_int()
        name = self._types[parameter]
        lib.gradients_rows(self._address, parameter, number_of(ELEMENT_TYPES, name, "element type"), byref(numbers),
                           byref(count), byref(values), byref(dense))
        return Rows(view_of(numbers.value, count.value, "int64", self).cast("q"),
                    view_of(values.value, count.value * self.parameters[parameter].row, name, self),
                    bool(dense.value))

    def poll(self) -> bool:
        """Advances calls. Returns True if all started buckets are complete."""
        return bool(value_of(c_int, lib.gradients_poll, self._address))

    def finish(self) -> None:
        """Ends the iteration. Returns when all gradients are reduced."""
        lib.gradients_finish(self._address)

    def join(self, after_each: Callable[[], None] | None = None) -> None:
        """Takes part in the other ranks' iterations with weight 0, until all ranks have called join()."""
        raised: list[BaseException] = []

        def run(_: object) -> int:
            try:
                if after_each is not None:
                    after_each()
                return 0
            except BaseException as e:
                raised.append(e)
                return 1

        try:
            lib.gradients_join(self._address, AFTER_EACH(run), None)
        except Exception:
            if raised:
                raise raised[0] from None
            raise

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A `with` block whose iterations are local: nothing is sent, and the caller accumulates gradients."""
        lib.gradients_no_sync(self._address, 1)
        try:
            yield
        finally:
            lib.gradients_no_sync(self._address, 0)

    def broadcast(self, tensors: Mapping[str, AnyBuffer], root: int = 0) -> None:
        """Copies the tensors of rank `root` to all ranks, by name; all ranks pass them in the same order."""
        buffers = {name: buffer_of(t, writable=True) for name, t in tensors.items()}
        listed = (CStateTensor * len(buffers))(*(
            CStateTensor(name.encode(), b.address, b.count, number_of(ELEMENT_TYPES, b.type, "element type"))
            for name, b in buffers.items()))
        lib.gradients_broadcast(self._address, listed, len(listed), root)

    def statistics(self) -> Times:
        """Returns the parts of the last iteration's time. Collective."""
        times = CGradientTimes()
        lib.gradients_statistics(self._address, byref(times))
        return Times(times.compute, times.communication, times.hidden, times.exposed, times.waiting)

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return int(lib.gradients_buckets(self._address))

    @property
    def rebuilds(self) -> int:
        """How many times the buckets were rebuilt for another order."""
        return int(lib.gradients_rebuilds(self._address))

    def bucket_of(self, parameter: int) -> int:
        """Returns the bucket of a parameter, counted from 0 in the order in which buckets start."""
        return int(value_of(c_int, lib.gradients_bucket_of, self._address, parameter))


def _indices(values: Sequence[int]) -> tuple[object, int]:
    return (c_int * len(values))(*values), len(values)

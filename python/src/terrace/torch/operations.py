"""What torch.distributed calls, over one communicator. The same for a Backend (torch 2.14 and later) and for a
ProcessGroup (before)."""
from __future__ import annotations

import math
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Callable, Sequence

import torch

from terrace._buffers import Buffer
from terrace.communicator import ANY_SOURCE, Communicator, Request
from terrace.reductions import Reduction
from terrace.torch.work import Work

Tensor = Any  # a torch.Tensor
Tensors = Sequence[Tensor]

_TYPES = {torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8",
          torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64",
          torch.bool: "boolean", torch.complex64: "complex64", torch.complex128: "complex128"}
_OPS = {"SUM": "sum", "AVG": "avg", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "BAND": "band", "BOR": "bor",
        "BXOR": "bxor", "PREMUL_SUM": "premul_sum"}
# Of bool: what the operations of numbers come to.
_BOOLEAN_OPS = {"sum": "lor", "max": "lor", "bor": "lor", "prod": "land", "min": "land", "band": "land", "bxor": "lxor"}

# Tags that callers cannot use: torch's are nonnegative and, of anything that exists, small.
_BLOCK_TAG, _ARRIVAL_TAG, _RELEASE_TAG = (2**31 - 1 - i for i in range(3))


def elements(tensor: Tensor) -> Buffer:
    """A contiguous tensor as elements that can be reduced."""
    name = _TYPES.get(tensor.dtype)
    if name is None:
        raise TypeError(f"terrace does not reduce {tensor.dtype}; it reduces {', '.join(_TYPES.values())}")
    return Buffer(tensor.data_ptr(), tensor.numel(), name, tensor)


def raw(tensor: Tensor) -> Buffer:
    """A contiguous tensor as bytes that are moved."""
    return Buffer(tensor.data_ptr(), tensor.numel() * tensor.element_size(), "uint8", tensor)


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """torch's operation as Terrace's."""
    kind = getattr(op, "op", op)
    name = _OPS[str(kind).rpartition(".")[2]]
    if dtype == torch.bool:
        name = _BOOLEAN_OPS.get(name, name)
    return Reduction(name, float(op.factor) if name == "premul_sum" else 1.0)


def packed(tensors: Tensors) -> Tensor:
    """All elements side by side."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unpack(flat: Tensor, into: Tensors) -> None:
    """The reverse of packed()."""
    at = 0
    for tensor in into:
        tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.shape))
        at += tensor.numel()


def room_for(tensors: Tensors) -> Tensor:
    return tensors[0].new_empty(sum(t.numel() for t in tensors))


def one(tensors: Tensors) -> Tensor:
    if len(tensors) != 1:
        raise ValueError(f"{len(tensors)} tensors were passed, terrace has one device per rank")
    return tensors[0]


def in_background(opts: Any) -> bool:
    """Whether nobody may be waiting for the call."""
    return bool(getattr(opts, "asyncOp", True))


def one_of_many(opts: Any) -> Any:
    """The options of a call in a group, which moves along with the others."""
    return SimpleNamespace(reduceOp=getattr(opts, "reduceOp", None), asyncOp=False)


class Operations:
    """Mixed into a class of torch's."""

    _comm: Communicator
    _timeout: timedelta

    def getBackendName(self) -> str:
        return "terrace"

    # ---- calls on contiguous copies, where a tensor is not

    def _in_place(self, tensor: Tensor, start: Callable[[Tensor], Request], opts: Any) -> Work:
        if tensor.is_contiguous():
            return Work([start(tensor)], [tensor], None, in_background(opts))
        copy = tensor.contiguous()
        return Work([start(copy)], [tensor], lambda: tensor.copy_(copy), in_background(opts))

    def _into(self, tensor: Tensor, start: Callable[[Tensor], Request], results: Any, opts: Any) -> Work:
        room = tensor if tensor.is_contiguous() else torch.empty(tensor.shape, dtype=tensor.dtype)
        return Work([start(room)], results, None if room is tensor else lambda: tensor.copy_(room), in_background(opts))

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any) -> Work:
        if one(tensors).is_sparse:
            return self._allreduce_sparse(tensors[0], opts)
        op = reduction(opts.reduceOp, tensors[0].dtype)
        return self._in_place(tensors[0], lambda t: self._comm.allreduce_async(elements(t), None, op), opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        with self._comm.group():
            works = [self.allreduce([t], one_of_many(opts)) for t in tensors]
        return Work(works, [w._results for w in works], None, in_background(opts))

    def allreduce_sparse(self, tensors: Tensors, opts: Any) -> Work:
        return self._allreduce_sparse(one(tensors), opts)

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> Work:
        """Everybody gets the entries of all ranks, and adds them up in the order of ranks."""
        if reduction(opts.reduceOp, tensor.dtype).op != "sum":
            raise ValueError("terrace reduces sparse tensors by SUM")
        mine = tensor.coalesce()
        counts = torch.zeros(self._comm.size, dtype=torch.int64)
        self._comm.allgather(elements(torch.tensor([mine._nnz()])), elements(counts))
        indices = self._gather_columns(mine._indices().t().contiguous(), counts)
        values = self._gather_columns(mine._values().contiguous(), counts)
        summed = torch.sparse_coo_tensor(indices.t(), values, tensor.shape).coalesce()
        return Work([], [summed], lambda: tensor.copy_(summed), True)

    def _gather_columns(self, rows: Tensor, counts: Tensor) -> Tensor:
        """The rows of all ranks, one after the other."""
        row = rows.element_size() * math.prod(rows.shape[1:])
        out = rows.new_empty((int(counts.sum()), *rows.shape[1:]))
        self._comm.allgather(raw(rows), raw(out), counts=[int(c) * row for c in counts])
        return out

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        op = reduction(opts.reduceOp, one(tensors).dtype)

        def start(t: Tensor) -> Request:
            return self._comm.reduce_async(elements(t), elements(t), opts.rootRank, op)

        return self._in_place(tensors[0], start, opts)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        out, blocks = one(outputs), one(inputs)
        flat, op = packed(blocks), reduction(opts.reduceOp, out.dtype)
        counts = [b.numel() for b in blocks]
        equal = None if len(set(counts)) == 1 else counts
        return self._into(out, lambda room: self._comm.reduce_scatter_async(elements(flat), elements(room), op,
                                                                            counts=equal), [out], opts)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        whole, op = input.contiguous(), reduction(opts.reduceOp, output.dtype)
        return self._into(output, lambda room: self._comm.reduce_scatter_async(elements(whole), elements(room), op),
                          [output], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        with self._comm.group():
            works = [self.reduce_scatter_single(o, i, one_of_many(opts)) for o, i in zip(outputs, inputs)]
        return Work(works, [w._results for w in works], None, in_background(opts))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- what only moves

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self._in_place(one(tensors), lambda t: self._comm.broadcast_async(raw(t), opts.rootRank), opts)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        into, mine = one(outputs), one(inputs).contiguous()
        counts = [t.numel() * t.element_size() for t in into]
        if len(into) != self._comm.size:
            raise ValueError(f"{len(into)} tensors for what {self._comm.size} ranks have")
        flat = room_for(into)
        request = self._comm.allgather_async(raw(mine), raw(flat), counts=None if len(set(counts)) == 1 else counts)
        return Work([request], [into], lambda: unpack(flat, into), in_background(opts))

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        """outputs[r][i] is tensor i of rank r."""
        mine = packed([t.reshape(-1).view(torch.uint8) for t in inputs])
        flat = mine.new_empty(mine.numel() * self._comm.size)

        def finish() -> None:
            at = 0
            for rank in outputs:
                for tensor in rank:
                    size = tensor.numel() * tensor.element_size()
                    tensor.copy_(flat.narrow(0, at, size).clone().view(tensor.dtype).view(tensor.shape))
                    at += size

        return Work([self._comm.allgather_async(raw(mine), raw(flat))], [outputs], finish, in_background(opts))

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        mine = input.contiguous()
        return self._into(output, lambda room: self._comm.allgather_async(raw(mine), raw(room)), [output], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        with self._comm.group():
            works = [self.all_gather_single(o, i, one_of_many(opts)) for o, i in zip(outputs, inputs)]
        return Work(works, [w._results for w in works], None, in_background(opts))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        mine, root = one(inputs).contiguous(), opts.rootRank
        if self._comm.rank != root:
            return Work([self._comm.gather_async(raw(mine), None, root)], [], None, in_background(opts))
        into = one(outputs)
        flat = room_for(into)
        return Work([self._comm.gather_async(raw(mine), raw(flat), root)], [into], lambda: unpack(flat, into),
                    in_background(opts))

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        out, root = one(outputs), opts.rootRank
        flat = packed(one(inputs)) if self._comm.rank == root else None
        return self._into(out, lambda room: self._comm.scatter_async(raw(flat) if flat is not None else None, raw(room),
                                                                     root), [out], opts)

    def all_to_all_single(self, output: Tensor, input: Tensor, output_splits: Sequence[int],
                          input_splits: Sequence[int], opts: Any) -> Work:
        by = input.contiguous()
        if not output_splits and not input_splits:
            return self._into(output, lambda room: self._comm.alltoall_async(raw(by), raw(room)), [output], opts)
        room = output if output.is_contiguous() else torch.empty(output.shape, dtype=output.dtype)
        size = self._comm.size
        requests = self._exchange(torch.split(by, list(input_splits) or by.shape[0] // size),
                                  torch.split(room, list(output_splits) or room.shape[0] // size))
        return Work(requests, [output], None if room is output else lambda: output.copy_(room), in_background(opts))

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        rooms = [o if o.is_contiguous() else torch.empty(o.shape, dtype=o.dtype) for o in outputs]

        def finish() -> None:
            for output, room in zip(outputs, rooms):
                if output is not room:
                    output.copy_(room)

        return Work(self._exchange([t.contiguous() for t in inputs], rooms), [outputs], finish, in_background(opts))

    def _exchange(self, blocks: Tensors, into: Tensors) -> list[Request]:
        """Lengths that two ranks know, and no other: a message for each pair."""
        requests: list[Request] = [self._comm.recv_async(raw(t), r, _BLOCK_TAG) for r, t in enumerate(into)]
        return requests + [self._comm.send_async(raw(t), r, _BLOCK_TAG) for r, t in enumerate(blocks)]

    # ---- messages

    def send(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        block = one(tensors).contiguous()
        return Work([self._comm.send_async(raw(block), rank, tag)], [block], None, True)

    def recv(self, tensors: Tensors, rank: int, tag: int = 0) -> Work:
        into = one(tensors)
        return self._into(into, lambda room: self._comm.recv_async(raw(room), rank, tag), [into], None)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self.recv(tensors, ANY_SOURCE, tag)

    recvAnysource = recv_anysource

    # ---- barriers

    def barrier(self, opts: Any = None) -> Work:
        return Work([self._comm.barrier_async()], [], None, in_background(opts))

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """Rank 0 waits for a message of each rank, and names those that do not come in time."""
        rank, size = self._comm.rank, self._comm.size
        timeout = getattr(opts, "timeout", self._timeout)
        end = time.monotonic() + timeout.total_seconds()
        word = torch.zeros(1, dtype=torch.uint8)
        if rank != 0:
            arrival = self._comm.send_async(raw(word), 0, _ARRIVAL_TAG)
            self._expect_by(end, {0: self._comm.recv_async(raw(word), 0, _RELEASE_TAG)}, timeout, True)
            arrival.wait()
            return
        words = torch.zeros(size, dtype=torch.uint8)
        self._expect_by(end, {r: self._comm.recv_async(raw(words[r:r + 1]), r, _ARRIVAL_TAG) for r in range(1, size)},
                        timeout, wait_all_ranks)
        for request in [self._comm.send_async(raw(word), r, _RELEASE_TAG) for r in range(1, size)]:
            request.wait()

    def _expect_by(self, end: float, requests: dict[int, Request], timeout: timedelta, name_all: bool) -> None:
        waiting = dict(requests)
        while waiting:
            waiting = {r: request for r, request in waiting.items() if not request.test()}
            if waiting and time.monotonic() > end:
                self._given_up = list(waiting.values())  # their buffers stay theirs
                late = list(waiting) if name_all else list(waiting)[:1]
                ranks = ", ".join(map(str, late))
                raise RuntimeError(f"Rank {self._comm.rank}: {'Ranks' if len(late) > 1 else 'Rank'} {ranks} failed to "
                                   f"pass monitoredBarrier in {timeout.total_seconds() * 1000:.0f} ms")
            time.sleep(0.0002)

    monitoredBarrier = monitored_barrier

    # ---- life

    def shutdown(self) -> None:
        self._comm.close()

    def abort(self) -> None:
        self._comm.close()

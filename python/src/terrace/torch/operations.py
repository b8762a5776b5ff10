"""The collectives that torch.distributed calls, over one communicator. The same class serves a Backend (torch 2.14 and
later) and a ProcessGroup (before)."""
from __future__ import annotations

import math
from collections import deque
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Callable, Deque, Sequence

import torch

from terrace._errors import rank_failed_error, usage_error
from terrace._requests import Request
from terrace.communicator import Communicator
from terrace.torch.devices import on_host, room_on_host
from terrace.torch.messages import BLOCK_TAG, Messages
from terrace.torch.tensors import (Tensor, Tensors, elements, multiplied, one, packed, raw, reduction, room_for,
                                   room_for_one, sparse, unpack)
from terrace.torch.work import Work, named

def in_background(opts: Any) -> bool:
    """Returns True if it is possible that no thread waits for the call."""
    return bool(getattr(opts, "asyncOp", True))


class Operations(Messages):
    """A mixin for a class of torch's."""

    #: Name of the back end in torch, also for profiles of its calls.
    backend_name = "terrace"

    _comm: Communicator
    _store: Any
    _timeout: timedelta
    _calls = 0  # number of calls that have been started
    _recent: Deque[Work] = deque(maxlen=0)  # works that are kept alive
    failed: tuple[int, ...] = ()  # failed ranks that a call has found

    def getBackendName(self) -> str:
        return self.backend_name

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def note_failure(self, error: BaseException | None) -> None:
        """Keeps the ranks that have failed: DDP only passes on the text of an error."""
        if isinstance(error, rank_failed_error):
            self.failed = tuple(f.rank for f in error.failed)

    # ---- calls on contiguous copies, if a tensor is not contiguous

    def _in_place(self, tensor: Tensor, start: Callable[[Tensor], Request], opts: Any) -> Work:
        if tensor.is_contiguous():
            return self._work([start(tensor)], [tensor], None, in_background(opts))
        copy = tensor.contiguous()
        return self._work([start(copy)], [tensor], lambda: tensor.copy_(copy), in_background(opts))

    def _into(self, tensor: Tensor, start: Callable[[Tensor], Request], results: Any, opts: Any) -> Work:
        room, finish = room_for_one(tensor)
        return self._work([start(room)], results, finish, in_background(opts))

    def _coalesced(self, start: Callable[..., Work], opts: Any, *tensors: Tensors) -> Work:
        """Makes a call for each tensor, or for each pair of tensors, in a group: they progress together."""
        of_each = SimpleNamespace(reduceOp=getattr(opts, "reduceOp", None), asyncOp=False)
        with self._comm.group():
            works = [start(*some, of_each) for some in zip(*tensors)]
        return self._work(works, [w._results for w in works], None, in_background(opts))

    # ---- reductions

    @named("all_reduce")
    def allreduce(self, tensors: Tensors, opts: Any) -> Work:
        tensor = one(tensors)
        return self._allreduce_sparse(tensor, opts) if tensor.is_sparse else self._allreduce(tensor, opts)

    def _allreduce(self, tensor: Tensor, opts: Any) -> Work:
        ready, op = multiplied(tensor, reduction(opts.reduceOp, tensor.dtype))
        if ready is not tensor:
            return self._into(tensor, lambda t: self._comm.allreduce_async(self._elements(ready.contiguous()),
                                                                           self._elements(t), op), [tensor], opts)
        return self._in_place(tensor, lambda t: self._comm.allreduce_async(self._elements(t), None, op), opts)

    @named("all_reduce")
    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        return self._coalesced(self._allreduce, opts, tensors)

    @named("sparse_all_reduce")
    def allreduce_sparse(self, tensors: Tensors, opts: Any) -> Work:
        return self._allreduce_sparse(one(tensors), opts)

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> Work:
        """Gathers the entries of all ranks on each rank, and adds them up in the order of ranks."""
        if reduction(opts.reduceOp, tensor.dtype).op != "sum":
            raise ValueError("terrace reduces sparse tensors by SUM")
        mine = tensor.coalesce().cpu()
        counts = torch.zeros(self._comm.size, dtype=torch.int64)
        self._comm.allgather(elements(torch.tensor([mine._nnz()])), elements(counts))
        indices = self._gather_columns(mine._indices().t().contiguous(), counts)
        values = self._gather_columns(mine._values().contiguous(), counts)
        summed = sparse(indices.t(), values, tensor.shape).coalesce().to(tensor.device)
        return Work([], [summed], lambda: tensor.copy_(summed), True)

    def _gather_columns(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Returns the rows of all ranks, by rank."""
        row = rows.element_size() * math.prod(rows.shape[1:])
        out = rows.new_empty((int(counts.sum()), *rows.shape[1:]))
        self._comm.allgather(raw(rows), raw(out), counts=[int(c) * row for c in counts])
        return out

    @named("reduce")
    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        ready, op = multiplied(one(tensors), reduction(opts.reduceOp, tensors[0].dtype))

        def start(t: Tensor) -> Request:
            send = t if ready is tensors[0] else ready.contiguous()
            return self._comm.reduce_async(self._elements(send), self._elements(t), opts.rootRank, op)

        return self._in_place(tensors[0], start, opts)

    @named("reduce_scatter", 1)
    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work:
        out, blocks = one(outputs), one(inputs)
        counts = [b.numel() for b in blocks]
        return self._reduce_scatter_single(out, packed(blocks), opts, None if len(set(counts)) == 1 else counts)

    def _reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None,
                               counts: Sequence[int] | None = None) -> Work:
        whole, op = multiplied(input.contiguous(), reduction(opts.reduceOp, output.dtype))

        def start(room: Tensor) -> Request:
            return self._comm.reduce_scatter_async(self._elements(whole), self._elements(room), op, counts=counts)

        return self._into(output, start, [output], opts)

    reduce_scatter_single = _reduce_scatter_base = named("reduce_scatter", 1)(_reduce_scatter_single)

    @named("reduce_scatter", 1)
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self._coalesced(self._reduce_scatter_single, opts, outputs, inputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- collectives without reductions

    @named("broadcast")
    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self._in_place(one(tensors), lambda t: self._comm.broadcast_async(self._raw(t), opts.rootRank), opts)

    @named("all_gather", 1)
    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        into, mine = one(outputs), one(inputs).contiguous()
        counts = [t.numel() * t.element_size() for t in into]
        if len(into) != self._comm.size:
            raise ValueError(f"{len(into)} tensors for what {self._comm.size} ranks have")
        flat = room_for(into)
        request = self._comm.allgather_async(self._raw(mine), self._raw(flat),
                                             counts=None if len(set(counts)) == 1 else counts)
        return self._work([request], [into], lambda: unpack(flat, into), in_background(opts))

    @named("all_gather", 1)
    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
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

        request = self._comm.allgather_async(self._raw(mine), self._raw(flat))
        return self._work([request], [outputs], finish, in_background(opts))

    def _all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        mine = input.contiguous()
        return self._into(output, lambda room: self._comm.allgather_async(self._raw(mine), self._raw(room)), [output],
                          opts)

    all_gather_single = _allgather_base = named("all_gather", 1)(_all_gather_single)

    @named("all_gather", 1)
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self._coalesced(self._all_gather_single, opts, outputs, inputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @named("gather", 1)
    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        mine, root = one(inputs).contiguous(), opts.rootRank
        if self._comm.rank != root:
            return self._work([self._comm.gather_async(self._raw(mine), None, root)], [], None, in_background(opts))
        into = one(outputs)
        flat = room_for(into)
        request = self._comm.gather_async(self._raw(mine), self._raw(flat), root)
        return self._work([request], [into], lambda: unpack(flat, into), in_background(opts))

    @named("gather", 1)
    def gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Sets `output` to the blocks of all ranks on the root; other ranks do not use it."""
        mine, root = input.contiguous(), opts.rootRank
        if self._comm.rank != root:
            return self._work([self._comm.gather_async(self._raw(mine), None, root)], [], None, in_background(opts))
        return self._into(output, lambda room: self._comm.gather_async(self._raw(mine), self._raw(room), root),
                          [output], opts)

    @named("scatter", 1)
    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work:
        out, root = one(outputs), opts.rootRank
        flat = packed(one(inputs)) if self._comm.rank == root else None

        def start(room: Tensor) -> Request:
            return self._comm.scatter_async(self._raw(flat) if flat is not None else None, self._raw(room), root)

        return self._into(out, start, [out], opts)

    @named("all_to_all", 1)
    def all_to_all_single(self, output: Tensor, input: Tensor, output_splits: Sequence[int],
                          input_splits: Sequence[int], opts: Any = None) -> Work:
        rows, size = input.shape[0], self._comm.size
        if not output_splits and not input_splits:
            if rows % size or output.shape[0] % size:
                raise usage_error(f"all_to_all_single: {rows} and {output.shape[0]} rows are no {size} equal blocks")
            by = input.contiguous()
            return self._into(output, lambda room: self._comm.alltoall_async(self._raw(by), self._raw(room)), [output],
                              opts)
        room, finish = room_on_host(output)
        requests = self._exchange(torch.split(on_host(input), list(input_splits) or rows // size),
                                  torch.split(room, list(output_splits) or room.shape[0] // size))
        return Work(requests, [output], finish, in_background(opts))

    alltoall_base = all_to_all_single

    @named("all_to_all", 1)
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        rooms = [room_on_host(o) for o in outputs]

        def finish() -> None:
            for _, copy in rooms:
                if copy is not None:
                    copy()

        requests = self._exchange([on_host(t) for t in inputs], [room for room, _ in rooms])
        return Work(requests, [outputs], finish, in_background(opts))

    def _exchange(self, blocks: Tensors, into: Tensors) -> list[Request]:
        """Exchanges blocks whose lengths only their two ranks know: a message for each pair of ranks."""
        requests: list[Request] = [self._comm.recv_async(raw(t), r, BLOCK_TAG) for r, t in enumerate(into)]
        return requests + [self._comm.send_async(raw(t), r, BLOCK_TAG) for r, t in enumerate(blocks)]

    @named("barrier", None)
    def barrier(self, opts: Any = None) -> Work:
        if self._gpu is not None:  # also completes the work of the current stream
            self._gpu.follow()
            self._gpu.finish()
        return self._work([self._comm.barrier_async()], [], None, in_background(opts))

    # ---- shutdown

    def _on_close(self) -> None:
        """Does nothing. The owner of the group replaces it."""

    def shutdown(self) -> None:
        if self._gpu is not None:
            self._gpu.finish()
        self._comm.close()
        self._on_close()

    def abort(self) -> None:
        """Does the same as shutdown, even if calls hang."""
        self._comm.abort()
        self.shutdown()

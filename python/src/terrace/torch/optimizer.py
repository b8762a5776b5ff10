"""Optimisers that reduce gradients, with an interface like Horovod's."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch

from terrace.communicator import Communicator
from terrace.gradients import GradientReducer, Parameter
from terrace.settings import AnyPlan
from terrace.torch.communicators import communicator_beside
from terrace.torch.tensors import elements, sparse, type_name

Average, Sum, Adasum = "avg", "sum", "adasum"


class Compression:
    """The types to which gradients may be converted before they are sent."""

    none = None
    fp16 = torch.float16
    bf16 = torch.bfloat16


class _Gradients:
    """The gradients of one optimiser, and the reducer. The reducer is made after the first iteration, which shows the
    sparse gradients."""

    def __init__(self, comm: Communicator, named: Sequence[tuple[str, Any]], op: str, compression: torch.dtype | None,
                 passes: int, sparse_as_dense: bool, **options: Any) -> None:
        self.comm, self.names, self.parameters = comm, [n for n, _ in named], [p for _, p in named]
        self.op, self.compression, self.passes, self.sparse_as_dense = op, compression, passes, sparse_as_dense
        self.options = options
        self.reducer: GradientReducer | None = None
        self.sparse: list[bool] = []
        self.sent: dict[int, Any] = {}  # of this iteration: tensors that the reducer writes to
        self.seen = [0] * len(named)  # backward passes since the last step
        self.handles = [self._on_gradient(i, p) for i, p in enumerate(self.parameters)]

    def _on_gradient(self, index: int, parameter: Any) -> Any:
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            return parameter.register_post_accumulate_grad_hook(lambda _: self._is_complete(index))
        accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # torch before 2.1
        return accumulator, accumulator.register_hook(lambda *_: self._is_complete(index))

    def _is_complete(self, index: int) -> None:
        self.seen[index] += 1
        if self.seen[index] > self.passes:
            raise RuntimeError(f'the gradient of "{self.names[index]}" was computed more than backward_passes_per_step '
                               f"({self.passes}) times before step() or synchronize(); increase it")
        if self.reducer is not None and self.seen[index] == self.passes:
            self._send(index)

    def _gradient(self, index: int) -> Any:
        parameter = self.parameters[index]
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        grad = parameter.grad
        if grad.is_sparse and (self.sparse_as_dense or (self.sparse and not self.sparse[index])):
            grad = parameter.grad = grad.to_dense()
        elif not grad.is_sparse and not grad.is_contiguous():
            grad = parameter.grad = grad.contiguous()
        return grad

    def _send(self, index: int) -> None:
        assert self.reducer is not None
        grad = self._gradient(index)
        if self.sparse[index]:
            rows = (grad if grad.is_sparse else grad.to_sparse(1)).coalesce()
            numbers, values = rows._indices()[0].contiguous(), rows._values().contiguous()
            self.sent[index] = numbers, values
            self.reducer.ready_rows(index, elements(numbers), elements(values))
            return
        sent = grad if self.compression is None else grad.to(self.compression)
        self.sent[index] = sent
        self.reducer.set_gradient(index, elements(sent))
        self.reducer.ready(index)

    def _make_reducer(self) -> GradientReducer:
        flags = torch.tensor([int(p.grad is not None and p.grad.is_sparse and not self.sparse_as_dense)
                              for p in self.parameters], dtype=torch.uint8)
        self.comm.allreduce(elements(flags), op="max")
        self.sparse = [bool(f) for f in flags.tolist()]
        listed = []
        for name, parameter, sparse in zip(self.names, self.parameters, self.sparse):
            if sparse:
                listed.append(Parameter(name, count=parameter.numel(), type=type_name(parameter.dtype),
                                        row=parameter.numel() // parameter.shape[0]))
            else:
                room = torch.zeros(parameter.numel(), dtype=self.compression or parameter.dtype)
                listed.append(Parameter(name, elements(room)))
        return GradientReducer(self.comm, listed, op=self.op, **self.options)

    def synchronize(self) -> None:
        """Sends the gradients not yet sent, as zeros if they are missing, and waits for all."""
        if self.reducer is None:
            self.reducer = self._make_reducer()
        for index in range(len(self.parameters)):
            if index not in self.sent:
                self._send(index)
        self.reducer.finish()
        for index, sent in self.sent.items():
            self._take(index, sent)
        self.sent, self.seen = {}, [0] * len(self.parameters)

    def _take(self, index: int, sent: Any) -> None:
        parameter = self.parameters[index]
        if not self.sparse[index]:
            if sent is not parameter.grad:
                parameter.grad.copy_(sent)
            return
        assert self.reducer is not None
        got = self.reducer.rows(index)
        numbers = torch.tensor(got.numbers.tolist(), dtype=torch.int64)
        values = torch.frombuffer(bytearray(got.values), dtype=parameter.dtype) if len(got.values) else sent[1][:0]
        parameter.grad = sparse(numbers[None], values.view(-1, *parameter.shape[1:]), parameter.shape)


class _Distributed:
    """A mixin for the class of the optimiser."""

    _gradients: _Gradients
    _synchronizes: bool

    def synchronize(self) -> None:
        """Returns when all gradients are reduced, for clipping before step()."""
        self._gradients.synchronize()
        self._is_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A `with` block in which step() does not reduce. For use after synchronize()."""
        self._synchronizes = False
        try:
            yield
        finally:
            self._synchronizes = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces the gradients, then runs the optimiser's own step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._synchronizes:
            self.synchronize()
        super().step()  # type: ignore[misc]
        return loss

    def zero_grad(self, *arguments: Any, **more: Any) -> None:
        """Clears gradients. Not allowed between backward() and step(), when they may be in use."""
        gradients = self._gradients
        if any(gradients.seen) and gradients.passes == 1:
            raise RuntimeError("zero_grad() was called after backward(), before step() or synchronize(): gradients may "
                               "be in use")
        super().zero_grad(*arguments, **more)  # type: ignore[misc]


def _named(optimizer: Any, named_parameters: Iterable[tuple[str, Any]] | None) -> list[tuple[str, Any]]:
    own = [p for group in optimizer.param_groups for p in group["params"]]
    if named_parameters is None:
        named = [(f"parameter.{i}", p) for i, p in enumerate(own)]
    else:
        named = list(named_parameters)
        if len({name for name, _ in named}) < len(named):
            raise ValueError("named_parameters has a name more than once")
        missing = {id(p) for p in own} - {id(p) for _, p in named}
        if missing:
            raise ValueError(f"named_parameters lacks {len(missing)} parameters of the optimizer")
    return [(name, p) for name, p in named if p.requires_grad]


def DistributedOptimizer(optimizer: Any, named_parameters: Iterable[tuple[str, Any]] | None = None,
                         compression: torch.dtype | None = Compression.none, backward_passes_per_step: int = 1,
                         op: str = Average, sparse_as_dense: bool = False, *, group: Any = None,
                         wire: str | None = None, levels: Sequence[str] | None = None, plan: AnyPlan | None = None,
                         bucket_bytes: int | None = None, error_feedback: bool = False) -> Any:
    """Wraps an optimiser of torch so that step() reduces gradients over all ranks first, while the backward pass runs.

    The result also has the optimiser's own class, and shares its state. Collective.

    :param named_parameters: names and parameters of the model; the same on all ranks
    :param compression: type to which gradients are converted on this rank: Compression.fp16, Compression.bf16
    :param backward_passes_per_step: number of backward passes whose gradients are added up locally
    :param op: Average or Sum; Adasum is refused
    :param sparse_as_dense: converts sparse gradients of embeddings to dense ones
    :param wire, levels, plan, error_feedback: as in ddp_hook()
    :param bucket_bytes: maximum size of a bucket; terrace.gradients.AUTOMATIC chooses it
    """
    if op == Adasum:
        raise ValueError("Adasum is no operation of Terrace: gradients are combined by Average or Sum")
    if op not in (Average, Sum):
        raise ValueError(f'op is "{op}"; allowed: Average, Sum')
    comm = communicator_beside(group, wire=wire, levels=levels, plan=plan)
    made_class: Any = type(type(optimizer).__name__, (_Distributed, type(optimizer)), {})
    made = made_class.__new__(made_class)
    made.__dict__ = optimizer.__dict__
    made._synchronizes = True
    made._gradients = _Gradients(comm, _named(optimizer, named_parameters), op, compression, backward_passes_per_step,
                                 sparse_as_dense, bucket_bytes=bucket_bytes, error_feedback=error_feedback)
    return made

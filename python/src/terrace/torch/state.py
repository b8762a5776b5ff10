"""Copies of state from one rank to all: parameters, and state of optimisers."""
from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple

import torch
import torch.distributed as dist


class _Place(NamedTuple):
    """The place of a tensor that was removed."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def _source(group: Any, root_rank: int) -> int:
    return root_rank if group is None else dist.get_global_rank(group, root_rank)


def _broadcast_all(tensors: Iterable[Any], root_rank: int, group: Any) -> None:
    works = [dist.broadcast(t, _source(group, root_rank), group, async_op=True) for t in tensors]
    for work in works:
        work.wait()


def broadcast_parameters(parameters: Mapping[str, Any] | Iterable[tuple[str, Any]], root_rank: int = 0, *,
                         group: Any = None) -> None:
    """Copies model.state_dict(), or named parameters, from rank `root_rank` of the group to all."""
    named = parameters.items() if isinstance(parameters, Mapping) else parameters
    _broadcast_all([p.detach() for _, p in sorted(named, key=lambda n: n[0]) if isinstance(p, torch.Tensor)], root_rank,
                   group)


def _without_tensors(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach().contiguous())
        return _Place(tuple(value.shape), value.dtype)
    if isinstance(value, dict):
        return {key: _without_tensors(v, tensors) for key, v in value.items()}
    return [_without_tensors(v, tensors) for v in value] if isinstance(value, list) else value


def _with_tensors(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, _Place):
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
        return tensors[-1]
    if isinstance(value, dict):
        return {key: _with_tensors(v, tensors) for key, v in value.items()}
    return [_with_tensors(v, tensors) for v in value] if isinstance(value, list) else value


def broadcast_optimizer_state(optimizer: Any, root_rank: int = 0, *, group: Any = None) -> None:
    """Copies the optimiser's state (momenta, learning rates, steps) from rank `root_rank` of the group to all."""
    tensors: list[Any] = []
    is_root = dist.get_rank(group) == root_rank
    told = [_without_tensors(optimizer.state_dict(), tensors) if is_root else None]
    dist.broadcast_object_list(told, _source(group, root_rank), group)
    state = None if is_root else _with_tensors(told[0], tensors)
    _broadcast_all(tensors, root_rank, group)
    if state is not None:
        optimizer.load_state_dict(state)

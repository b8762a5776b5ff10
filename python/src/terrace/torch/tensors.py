"""torch's tensors as Terrace's buffers, and torch's operations as reductions."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from terrace._buffers import Buffer
from terrace.reductions import Reduction

Tensor = Any  # a torch.Tensor
Tensors = Sequence[Tensor]

_TYPES = {torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8",
          torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64",
          torch.bool: "boolean", torch.complex64: "complex64", torch.complex128: "complex128"}
_OPS = {"SUM": "sum", "AVG": "avg", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "BAND": "band", "BOR": "bor",
        "BXOR": "bxor", "PREMUL_SUM": "premul_sum"}
# Equivalents of the operations for elements of type bool.
_BOOLEAN_OPS = {"sum": "lor", "max": "lor", "bor": "lor", "prod": "land", "min": "land", "band": "land", "bxor": "lxor"}
# Option for sparse tensors: from 2.0 on, torch warns if it is not told whether to check them. They were checked before.
_UNCHECKED: dict[str, bool] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {})


def type_name(dtype: torch.dtype) -> str:
    """Returns Terrace's name of an element type."""
    name = _TYPES.get(dtype)
    if name is None:
        raise TypeError(f"terrace does not reduce {dtype}; it reduces {', '.join(_TYPES.values())}")
    return name


def sparse(indices: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns a sparse tensor from entries of valid sparse tensors."""
    return torch.sparse_coo_tensor(indices, values, shape, **_UNCHECKED)


def is_on_gpu(tensor: Tensor) -> bool:
    """Returns True if a tensor is on a GPU. @raises TypeError if it is neither there nor on the host"""
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"terrace.torch moves tensors of CPUs and of CUDA's GPUs, this one is on {tensor.device}")
    return bool(tensor.device.type == "cuda")


def elements(tensor: Tensor) -> Buffer:
    """Returns a contiguous tensor as elements that can be reduced."""
    return Buffer(tensor.data_ptr(), tensor.numel(), type_name(tensor.dtype), tensor, is_on_gpu(tensor))


def raw(tensor: Tensor) -> Buffer:
    """Returns a contiguous tensor as bytes, which can be moved."""
    return Buffer(tensor.data_ptr(), tensor.numel() * tensor.element_size(), "uint8", tensor, is_on_gpu(tensor))


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """Returns Terrace's reduction for an operation of torch."""
    kind = getattr(op, "op", op)
    name = _OPS[str(kind).rpartition(".")[2]]
    if dtype == torch.bool:
        name = _BOOLEAN_OPS.get(name, name)
    return Reduction(name, float(op.factor) if name == "premul_sum" else 1.0)


def multiplied(tensor: Tensor, by: Reduction) -> tuple[Tensor, Reduction]:
    """Returns the same reduction, with PREMUL_SUM's factor already applied to tensors on the GPU."""
    if by.op != "premul_sum" or not is_on_gpu(tensor):
        return tensor, by
    return tensor * by.factor, Reduction("sum")


def packed(tensors: Tensors) -> Tensor:
    """Returns the elements of all tensors side by side."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unpack(flat: Tensor, into: Tensors) -> None:
    """Copies elements side by side back into tensors: the reverse of packed()."""
    at = 0
    for tensor in into:
        tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.shape))
        at += tensor.numel()


def room_for(tensors: Tensors) -> Tensor:
    return tensors[0].new_empty(sum(t.numel() for t in tensors))


def room_for_one(tensor: Tensor) -> tuple[Tensor, Callable[[], None] | None]:
    """Returns a contiguous tensor for received data, and a function that copies them to `tensor`, if needed."""
    if tensor.is_contiguous():
        return tensor, None
    room = tensor.new_empty(tensor.shape)
    return room, lambda: tensor.copy_(room)


def one(tensors: Tensors) -> Tensor:
    if len(tensors) != 1:
        raise ValueError(f"{len(tensors)} tensors were passed, terrace has one device per rank")
    return tensors[0]

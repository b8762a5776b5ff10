"""Buffers of other packages: __array_interface__, the same for CUDA, DLPack, and Python's buffer protocol."""
from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass
from typing import Any, Mapping

from terrace._errors import usage_error
from terrace._library import lib
from terrace.reductions import ELEMENT_TYPES, number_of


#: Buffers that calls accept: a numpy array, a tensor, an array.array, a bytearray, a memoryview, a Window ...
AnyBuffer = Any


@dataclass(frozen=True)
class Buffer:
    """Elements at an address, which may be on a GPU. `owner` keeps the memory alive."""

    address: int
    count: int
    type: str
    owner: object
    on_gpu: bool = False


# ---- __array_interface__

_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_NATIVE = "<" if sys.byteorder == "little" else ">"


def _type_of_typestr(typestr: str) -> str | None:
    order, kind, size = typestr[0], typestr[1], int(typestr[2:])
    if order not in ("|", "=", _NATIVE):
        return None
    if kind in "bSV":
        return {"b": "boolean"}.get(kind, "uint8") if size == 1 else None
    return f"{_KINDS[kind]}{8 * size}" if kind in _KINDS else None


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> bool:
    if strides is None:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != item:
            return False
        item *= extent
    return True


def _from_array_interface(buffer: object, said: Mapping[str, Any],
                          writable: bool) -> tuple[int, int, str | None, int, object]:
    address, readonly = said["data"]
    shape, item = tuple(said["shape"]), int(said["typestr"][2:])
    _expect(not (writable and readonly), "is read-only")
    _expect(_is_contiguous(shape, said.get("strides"), item), "is not contiguous: pass a contiguous copy")
    return address, math.prod(shape), _type_of_typestr(said["typestr"]), item, (buffer, said)


# ---- DLPack

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_BOOLEAN = 6
_OF_THE_HOST, _OF_GPUS = (1, 3), (2, 13)  # device types: CPU, CUDA's pinned memory; CUDA, CUDA's managed memory
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _from_dlpack(buffer: Any) -> tuple[int, int, str | None, int, object, bool]:
    capsule = buffer.__dlpack__()  # frees the tensor when it is deleted, since its name is unchanged
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    _expect(tensor.lanes == 1, "has vectors for elements")
    _expect(tensor.device_type in _OF_THE_HOST + _OF_GPUS, "is neither the host's nor CUDA's")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    _expect(_is_contiguous(shape, strides, 1), "is not contiguous: pass a contiguous copy")
    type_name = "boolean" if tensor.code == _BOOLEAN else f"{_CODES.get(tensor.code)}{tensor.bits}"
    return (tensor.data or 0) + tensor.byte_offset, math.prod(shape), type_name, tensor.bits // 8, (buffer, capsule), \
        tensor.device_type in _OF_GPUS


# ---- Python's buffer protocol

class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer, _release_buffer = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int], ctypes.c_int
_release_buffer.argtypes, _release_buffer.restype = [ctypes.POINTER(_PyBuffer)], None
_FORMATS = {**dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint"), **dict.fromkeys("efd", "float"),
            "Zf": "complex", "Zd": "complex"}


def _type_of_format(text: str, size: int) -> str | None:
    text = text.lstrip("@=" + _NATIVE)
    if text == "?":
        return "boolean"
    if text in ("c", "s"):
        return "uint8"
    return f"{_FORMATS[text]}{8 * size}" if text in _FORMATS else None


def _from_buffer_protocol(buffer: Any, writable: bool) -> tuple[int, int, str | None, int, object]:
    try:
        view = memoryview(buffer)
    except TypeError:
        raise usage_error(f"a {type(buffer).__name__} is no buffer: it has neither __array_interface__, nor its form "
                          "for CUDA, nor __dlpack__, nor Python's buffer protocol") from None
    _expect(not (writable and view.readonly), "is read-only")
    _expect(view.c_contiguous, "is not contiguous: pass a contiguous copy")
    raw = _PyBuffer()
    _get_buffer(view, ctypes.byref(raw), 0)
    address = raw.buf or 0
    _release_buffer(ctypes.byref(raw))  # `view` still holds the memory
    return address, view.nbytes // view.itemsize, _type_of_format(view.format, view.itemsize), view.itemsize, view


# ---- all kinds of buffers

_NOT_HERE = "is on a GPU: collectives accept it, once the communicator has a device by use_device()"


def _expect(right: bool, otherwise: str) -> None:
    if not right:
        raise usage_error(f"the buffer {otherwise}")


def buffer_of(buffer: AnyBuffer, type: str | None = None, writable: bool = False, *, on_gpu: bool = False) -> Buffer:
    """Returns the elements of a buffer, which may be on a GPU only with `on_gpu`.

    `type` gives the element type if the buffer cannot express it (bfloat16 in numpy); sizes must agree.

    >>> import array
    >>> found = buffer_of(array.array("d", [1, 2, 3]))
    >>> found.count, found.type
    (3, 'float64')
    """
    if isinstance(buffer, Buffer):
        _expect(on_gpu or not buffer.on_gpu, _NOT_HERE)
        return buffer
    is_there = False
    if hasattr(buffer, "__array_interface__"):
        address, count, found, size, owner = _from_array_interface(buffer, buffer.__array_interface__, writable)
    elif hasattr(buffer, "__dlpack__"):
        address, count, found, size, owner, is_there = _from_dlpack(buffer)
    elif hasattr(buffer, "__cuda_array_interface__"):
        is_there = True
        address, count, found, size, owner = _from_array_interface(buffer, buffer.__cuda_array_interface__, writable)
    else:
        address, count, found, size, owner = _from_buffer_protocol(buffer, writable)
    _expect(on_gpu or not is_there, _NOT_HERE)
    name = type or found
    _expect(name is not None and (type is not None or name in ELEMENT_TYPES),
            "has elements of a type that Terrace does not know; pass type=")
    assert name is not None
    number = number_of(ELEMENT_TYPES, name, "element type")
    _expect(lib.size_of(number) == size, f"has elements of {size} bytes, which are no {name}")
    return Buffer(address, count, name, owner, is_there)

"""Python functions that XLA calls inside a compiled program: the structures of its foreign function interface.

They are a part of XLA's xla/ffi/api/c_api.h, version 0: the fields that are used here.
"""
from __future__ import annotations

import ctypes
import itertools
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Callable

_HEAD: list[tuple[str, Any]] = [("size", c_size_t), ("extension", c_void_p)]
_ASKS_FOR_VERSION = 1  # type of an extension
_INTERNAL = 13  # code of an error


class _Version(Structure):
    _fields_ = [*_HEAD, ("major", c_int), ("minor", c_int)]


class _Metadata(Structure):
    _fields_ = [("size", c_size_t), ("version", _Version)]


class _Extension(Structure):
    _fields_ = [("size", c_size_t), ("type", c_int), ("next", c_void_p), ("metadata", POINTER(_Metadata))]


class _Error(Structure):
    _fields_ = [*_HEAD, ("message", c_char_p), ("code", c_int)]


class _Api(Structure):
    _fields_ = [*_HEAD, ("version", _Version), ("internal", c_void_p),
                ("create_error", CFUNCTYPE(c_void_p, POINTER(_Error)))]


class _Buffer(Structure):
    _fields_ = [*_HEAD, ("type", c_int), ("data", c_void_p)]


class _Buffers(Structure):
    _fields_ = [*_HEAD, ("count", c_int64), ("types", c_void_p), ("at", POINTER(POINTER(_Buffer)))]


class _Scalar(Structure):
    _fields_ = [("type", c_int), ("value", POINTER(c_int64))]


class _Attributes(Structure):
    _fields_ = [*_HEAD, ("count", c_int64), ("types", c_void_p), ("names", c_void_p),
                ("at", POINTER(POINTER(_Scalar)))]


class _Frame(Structure):
    _fields_ = [("size", c_size_t), ("extension", POINTER(_Extension)), ("api", POINTER(_Api)), ("context", c_void_p),
                ("stage", c_int), ("arguments", _Buffers), ("results", _Buffers), ("attributes", _Attributes)]


#: Function that gets the addresses of arguments and of results.
Call = Callable[["list[int]", "list[int]"], None]
_numbers = itertools.count()
_calls: dict[int, Call] = {}


def number_of_call(call: Call) -> int:
    """Returns the value of a custom call's only attribute that identifies `call` in this process."""
    number = next(_numbers)
    _calls[number] = call
    return number


def _addresses(buffers: _Buffers) -> list[int]:
    return [buffers.at[i].contents.data or 0 for i in range(buffers.count)]


def _handle(given: Any) -> int | None:
    frame = given.contents
    if frame.extension and frame.extension.contents.type == _ASKS_FOR_VERSION:
        answer = frame.extension.contents.metadata.contents.version
        # Version 0.1 passes no API. The fields that are read here are the same since then.
        answer.major, answer.minor = 0, frame.api.contents.version.minor if frame.api else 1
        return None
    try:
        call = _calls[frame.attributes.at[0].contents.value[0]]
        call(_addresses(frame.arguments), _addresses(frame.results))
        return None
    except BaseException as e:
        text = f"{type(e).__name__}: {e}".encode()
        made: int = frame.api.contents.create_error(_Error(ctypes.sizeof(_Error), None, text, _INTERNAL))
        return made


#: The function to register with XLA.
HANDLER = CFUNCTYPE(c_void_p, POINTER(_Frame))(_handle)

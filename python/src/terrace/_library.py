"""libterrace, through ctypes: loading, the functions of terrace.h, and statuses as exceptions."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any

from terrace import _errors

HERE = pathlib.Path(__file__).parent / "lib"


class ErrorSource(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("line", c_int), ("column", c_int), ("library", c_char_p), ("call", c_char_p),
                ("code", c_int)]


class CReduction(ctypes.Structure):
    _fields_ = [("op", c_int), ("factor", c_double), ("exact", c_int)]


class CReceived(ctypes.Structure):
    _fields_ = [("source", c_int), ("count", c_int64)]


PUT = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t))
REMOVE = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p)
LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_size_t)
BODY = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
DONE = ctypes.CFUNCTYPE(None, c_void_p, c_int)
PROCESSES = ctypes.CFUNCTYPE(c_int)
ON_ALL = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)
AFTER_EACH = ctypes.CFUNCTYPE(c_int, c_void_p)


class CFailedRank(ctypes.Structure):
    _fields_ = [("rank", c_int), ("host", c_char_p), ("noticed", c_char_p)]


class CStore(ctypes.Structure):
    _fields_ = [("rank", c_int), ("size", c_int), ("user", c_void_p), ("put", PUT), ("get", GET), ("remove", REMOVE)]


class CMpiWorld(ctypes.Structure):
    _fields_ = [("library", c_char_p), ("comm", c_void_p), ("version", c_char_p), ("processes", PROCESSES),
                ("on_all", ON_ALL), ("function", c_void_p)]


class CGradientParameter(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("count", c_int64), ("type", c_int), ("gradient", c_void_p), ("row", c_int64)]


class CStateTensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("count", c_int64), ("type", c_int)]


class CGradientOptions(ctypes.Structure):
    _fields_ = [("bucket_bytes", c_int64), ("first_bucket_bytes", c_int64), ("op", c_int), ("unused", c_int),
                ("weighted", c_int), ("dense_above", c_double), ("rounds_on_wire", c_int), ("error_feedback", c_int)]


class CGradientTimes(ctypes.Structure):
    _fields_ = [(name, c_double) for name in ("compute", "communication", "hidden", "exposed", "waiting")]


_OUT = POINTER(c_void_p)  # of a handle
_TYPE, _ROOT, _COUNT, _COUNTS = c_int, c_int, c_int64, POINTER(c_int64)
_REQUEST = POINTER(c_void_p)

# Functions that return a status. The first argument is a handle, except in functions that make one.
_CALLS: dict[str, list[Any]] = {
    "options_create": [_OUT],
    "options_from_environment": [_OUT],
    "options_set": [c_void_p, c_char_p, c_char_p],
    "options_set_log": [c_void_p, LOG, c_void_p],
    "plan_load": [c_char_p, _OUT],
    "ucx_create": [c_void_p, c_void_p, _OUT],
    "ucx_create_in_store": [POINTER(CStore), c_void_p, c_void_p, _OUT],
    "mpi_create_in": [POINTER(CMpiWorld), c_int, c_void_p, c_void_p, _OUT],
    "use_device": [c_void_p, c_int],
    "device_stream": [c_void_p, _OUT],
    "loopback_run": [c_void_p, c_void_p, BODY, c_void_p],
    "split": [c_void_p, c_int, c_int, _OUT],
    "split_by_node": [c_void_p, c_int, _OUT],
    "shrink": [c_void_p, _OUT],
    "set_timeout": [c_void_p, c_double],
    "abort": [c_void_p],
    "shape": [c_void_p, c_int64, POINTER(c_char_p)],
    "statistics": [c_void_p, POINTER(c_char_p)],
    "predicted": [c_void_p, c_int64, POINTER(c_double)],
    "test": [c_void_p, POINTER(c_int)],
    "wait": [c_void_p],
    "then": [c_void_p, DONE, c_void_p],
    "allreduce": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, CReduction, _REQUEST],
    "reduce_scatter": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, CReduction, _REQUEST],
    "reduce_scatter_blocks": [c_void_p, c_void_p, c_void_p, _COUNTS, _TYPE, CReduction, _REQUEST],
    "allgather": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, _REQUEST],
    "allgather_blocks": [c_void_p, c_void_p, c_void_p, _COUNTS, _TYPE, _REQUEST],
    "alltoall": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, _REQUEST],
    "gather": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, _ROOT, _REQUEST],
    "gather_blocks": [c_void_p, c_void_p, c_void_p, _COUNTS, _TYPE, _ROOT, _REQUEST],
    "scatter": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, _ROOT, _REQUEST],
    "scatter_blocks": [c_void_p, c_void_p, c_void_p, _COUNTS, _TYPE, _ROOT, _REQUEST],
    "broadcast": [c_void_p, c_void_p, _COUNT, _TYPE, _ROOT, _REQUEST],
    "reduce": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, _ROOT, CReduction, _REQUEST],
    "barrier": [c_void_p, _REQUEST],
    "alltoallv": [c_void_p, c_void_p, _COUNTS, c_void_p, _COUNT, _COUNTS, _COUNT, _TYPE],
    "gatherv": [c_void_p, c_void_p, _COUNT, c_void_p, _COUNT, _COUNTS, _TYPE, _ROOT],
    "scatterv": [c_void_p, c_void_p, _COUNTS, c_void_p, _COUNT, _TYPE, _ROOT, POINTER(c_int64)],
    "group_start": [c_void_p],
    "group_end": [c_void_p],
    "send": [c_void_p, c_void_p, _COUNT, _TYPE, c_int, c_int, _REQUEST],
    "recv": [c_void_p, c_void_p, _COUNT, _TYPE, c_int, c_int, POINTER(CReceived), _REQUEST],
    "allocate": [c_void_p, c_size_t, _TYPE, _OUT],
    "allreduce_keeping_errors": [c_void_p, c_void_p, c_void_p, _COUNT, _TYPE, c_void_p, _REQUEST],
    "gradients_create": [c_void_p, POINTER(CGradientParameter), c_int, POINTER(CGradientOptions), _OUT],
    "gradients_at": [c_void_p, c_int, POINTER(c_void_p)],
    "gradients_set": [c_void_p, c_int, c_void_p],
    "gradients_set_weight": [c_void_p, c_double],
    "gradients_drop": [c_void_p, POINTER(c_int), c_int, c_int],
    "gradients_forward_done": [c_void_p, POINTER(c_int), c_int],
    "gradients_ready": [c_void_p, c_int],
    "gradients_ready_rows": [c_void_p, c_int, POINTER(c_int64), c_int64, c_void_p, _TYPE],
    "gradients_rows": [c_void_p, c_int, _TYPE, POINTER(c_void_p), POINTER(c_int64), POINTER(c_void_p), POINTER(c_int)],
    "gradients_poll": [c_void_p, POINTER(c_int)],
    "gradients_finish": [c_void_p],
    "gradients_join": [c_void_p, AFTER_EACH, c_void_p],
    "gradients_no_sync": [c_void_p, c_int],
    "gradients_broadcast": [c_void_p, POINTER(CStateTensor), c_int, c_int],
    "gradients_statistics": [c_void_p, POINTER(CGradientTimes)],
    "gradients_bucket_of": [c_void_p, c_int, POINTER(c_int)],
}
# Functions that cannot fail.
_VALUES: dict[str, tuple[Any, list[Any]]] = {
    "last_error": (c_char_p, []),
    "last_error_source": (ErrorSource, []),
    "last_failed_ranks": (POINTER(CFailedRank), [POINTER(c_int)]),
    "status_name": (c_char_p, [c_int]),
    "version": (c_char_p, []),
    "element_type_name": (c_char_p, [c_int]),
    "size_of": (c_size_t, [c_int]),
    "reduce_op_name": (c_char_p, [c_int]),
    "is_defined": (c_int, [c_int, c_int]),
    "plan_name": (c_char_p, [c_void_p]),
    "plan_ranks": (c_int, [c_void_p]),
    "plan_id": (c_char_p, [c_void_p]),
    "rank": (c_int, [c_void_p]),
    "size": (c_int, [c_void_p]),
    "window_data": (c_void_p, [c_void_p]),
    "gradient_defaults": (CGradientOptions, []),
    "gradients_buckets": (c_int, [c_void_p]),
    "gradients_rebuilds": (c_int, [c_void_p]),
    **{f"{handle}_destroy": (None, [c_void_p]) for handle in ("options", "plan", "communicator", "request", "window",
                                                              "gradients")},
}


def _load() -> ctypes.CDLL:
    """Loads the file in LIBTERRACE, the library in this package, or the system's, in this order."""
    named = os.environ.get("LIBTERRACE")
    inside = sorted(HERE.glob("libterrace.so*"))
    found = named or (str(inside[0]) if inside else ctypes.util.find_library("terrace"))
    if not found:
        raise ImportError("libterrace.so is missing: install the wheel that `pip wheel ./python` builds, or set "
                          "LIBTERRACE to the library's file")
    try:
        return ctypes.CDLL(found)
    except OSError as e:
        raise ImportError(f"{found} cannot be loaded: {e}") from e


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def failure(status: int) -> Exception:
    """Returns the exception for the status that the last call on this thread returned."""
    text, source = _text(lib.last_error()), lib.last_error_source()
    name = _text(lib.status_name(status)).removeprefix("terrace_")
    if name == "no_memory":
        return MemoryError(text)
    made: _errors.error = getattr(_errors, name, _errors.error)(text)
    if isinstance(made, _errors.input_error):
        made.file, made.line, made.column = _text(source.file), source.line, source.column
    if isinstance(made, _errors.transport_error):
        made.library, made.call, made.code = _text(source.library), _text(source.call), source.code
    if isinstance(made, _errors.rank_failed_error):
        count = c_int()
        failed = lib.last_failed_ranks(ctypes.byref(count))
        made.failed = tuple(_errors.FailedRank(failed[i].rank, _text(failed[i].host), _text(failed[i].noticed))
                            for i in range(count.value))
    return made


def _raise_failure(status: Any, function: Any, arguments: Any) -> Any:
    if status != 0:
        raise failure(status)
    return status


class _Functions:
    """lib.allreduce is terrace_allreduce. Functions that return a status raise exceptions."""

    def __init__(self) -> None:
        library = _load()
        for name, arguments in _CALLS.items():
            function = library[f"terrace_{name}"]
            function.argtypes, function.restype, function.errcheck = arguments, c_int, _raise_failure
            setattr(self, name, function)
        for name, (result, arguments) in _VALUES.items():
            function = library[f"terrace_{name}"]
            function.argtypes, function.restype = arguments, result
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"terrace_{name} is no function of libterrace")


lib = _Functions()


def version() -> str:
    """Returns the version of the library."""
    return _text(lib.version())


class Handle:
    """An object of the library, destroyed with this Python object unless it is borrowed."""

    _kind = ""

    def __init__(self, address: int | None, borrowed: bool = False) -> None:
        self._address, self._borrowed = address, borrowed

    def _destroy(self) -> None:
        address, self._address = self._address, None
        if address and not self._borrowed:
            getattr(lib, f"{self._kind}_destroy")(address)

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            self._destroy()


def value_of(kind: Any, function: Any, *arguments: Any) -> Any:
    """Calls a function whose last argument is an output of a C type. Returns this output."""
    out = kind()
    function(*arguments, ctypes.byref(out))
    return out.value


def made_by(function: Any, *arguments: Any) -> int | None:
    """Calls a function whose last argument is an output handle. Returns the handle."""
    made: int | None = value_of(c_void_p, function, *arguments)
    return made

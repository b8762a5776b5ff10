"""Memory allocated by the library."""
from __future__ import annotations

import ctypes
from typing import Any, Mapping

from terrace._library import Handle, lib
from terrace.reductions import ELEMENT_TYPES


def view_of(address: int | None, count: int, element_type: str, owner: object) -> memoryview:
    """Returns memory of the library as bytes, which keep the owner alive."""
    size = count * lib.size_of(ELEMENT_TYPES[element_type])
    memory: Any = (ctypes.c_ubyte * size).from_address(address) if address and size else (ctypes.c_ubyte * 0)()
    memory.owner = owner
    return memoryview(memory).cast("B")


class Window(Handle):
    """Memory shared by the ranks of a node, zeroed: calls on it copy nothing inside a node. A buffer for calls and for
    numpy.asarray()."""

    _kind = "window"

    def __init__(self, address: int | None, count: int, element_type: str) -> None:
        super().__init__(address)
        self.count, self.type = count, element_type
        size = lib.size_of(ELEMENT_TYPES[element_type])
        kind = {"boolean": "b", "bfloat16": "V"}.get(element_type, element_type[0])
        order = "|" if size == 1 else "<"
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3, "shape": (count,), "typestr": f"{order}{kind}{size}",
            "data": (lib.window_data(address) or 0, False)}

    @property
    def bytes(self) -> memoryview:
        """The memory as bytes, valid as long as the window."""
        return view_of(self.__array_interface__["data"][0], self.count, self.type, self)

#!/usr/bin/env python3
"""Objects that the package `terrace` accepts as buffers: by the buffer protocol, __array_interface__, DLPack.

usage: buffers_test.py PACKAGE_DIRECTORY LIBTERRACE [TEST...]

Runs without numpy and torch: tests that need one of them are skipped.
"""
import array
import ctypes
import importlib.util
import os
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
os.environ["LIBTERRACE"] = sys.argv.pop(1)

import terrace  # noqa: E402
from terrace._buffers import buffer_of  # noqa: E402


def has(module):
    return importlib.util.find_spec(module) is not None


class FakeArray:
    """An object with numpy's description of a piece of memory."""

    def __init__(self, memory, typestr, shape, strides=None, readonly=False):
        self._memory = memory
        self.__array_interface__ = {"version": 3, "typestr": typestr, "shape": shape, "strides": strides,
                                    "data": (ctypes.addressof(ctypes.c_char.from_buffer(memory)), readonly)}


class Buffers(unittest.TestCase):
    def test_of_the_buffer_protocol(self):
        for code, size in [("b", 8), ("H", 16), ("i", 32), ("q", 64)]:
            kind = "uint" if code.isupper() else "int"
            self.assertEqual(buffer_of(array.array(code, [1, 2])).type, f"{kind}{size}")
        self.assertEqual(buffer_of(array.array("f", [1])).type, "float32")
        self.assertEqual(buffer_of(b"abc").type, "uint8")
        self.assertEqual(buffer_of(memoryview(bytearray(4)).cast("?")).type, "boolean")
        data = array.array("d", [1, 2])
        self.assertEqual(buffer_of(data).address, data.buffer_info()[0])
        self.assertEqual(buffer_of(b"").count, 0)

    def test_of_array_interface(self):
        memory = bytearray(48)
        self.assertEqual(buffer_of(FakeArray(memory, "<c16", (3,))).type, "complex128")
        self.assertEqual(buffer_of(FakeArray(memory, "|b1", (2, 3))).count, 6)
        self.assertEqual(buffer_of(FakeArray(memory, "<V2", (4,)), "bfloat16").type, "bfloat16")
        self.assertEqual(buffer_of(FakeArray(memory, "<f4", (2, 3), (12, 4))).count, 6)
        for wrong, text in [(FakeArray(memory, "<f4", (3,), (8,)), "not contiguous"),
                            (FakeArray(memory, ">f4", (3,)), "type that Terrace does not know"),
                            (FakeArray(memory, "<f4", (3,), readonly=True), "read-only")]:
            with self.assertRaisesRegex(terrace.usage_error, text):
                buffer_of(wrong, writable=True)
        with self.assertRaisesRegex(terrace.usage_error, "elements of 4 bytes, which are no bfloat16"):
            buffer_of(FakeArray(memory, "<f4", (3,)), "bfloat16")

    @unittest.skipUnless(has("numpy"), "no numpy here")
    def test_of_numpy(self):
        import numpy
        plan = terrace.plan("package:2")
        data = terrace.loopback.run(plan, lambda comm: (lambda a: (comm.allreduce(a), a)[1])(
            numpy.full((3, 2), comm.rank, numpy.float16)))
        self.assertTrue((data[0] == 1).all())
        window = terrace.loopback.run(plan, lambda comm: numpy.asarray(comm.allocate(5, "int16")).sum())
        self.assertEqual(window, [0, 0])

    @unittest.skipUnless(has("torch"), "no torch here")
    def test_of_dlpack(self):
        import torch
        for dtype, name in [(torch.bfloat16, "bfloat16"), (torch.bool, "boolean"), (torch.complex64, "complex64")]:
            tensor = torch.zeros(6, dtype=dtype)
            found = buffer_of(type("Exporter", (), {"__dlpack__": lambda self: tensor.__dlpack__()})())
            self.assertEqual((found.address, found.count, found.type), (tensor.data_ptr(), 6, name))


if __name__ == "__main__":
    unittest.main()

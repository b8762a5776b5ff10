#!/usr/bin/env python3
"""Terrace's use of a c10d store, with a stand-in for the store, so torch is not needed.

usage: stand_in_test.py PACKAGE_DIRECTORY LIBTERRACE [TEST...]
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if __name__ == "__main__":
    os.environ.update(STAND_IN_PACKAGE=sys.argv.pop(1), LIBTERRACE=sys.argv.pop(1))
PACKAGE = os.environ["STAND_IN_PACKAGE"]  # the ranks import this file, too
sys.path.insert(0, PACKAGE)

from terrace._stores import C10dStore  # noqa: E402

RANK = """
import array, sys
sys.path.insert(0, sys.argv[1])
import stand_in_test as stand_in
import terrace
store, rank, size = stand_in.Files(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with terrace.create(store, rank, size) as comm:
    data = array.array("f", [rank] * 1000)
    comm.allreduce(data)
    reducer = terrace.GradientReducer(comm, [("weight", data)])
    reducer.ready(0)
    reducer.finish()
    with comm.split(0) as part:
        print(data[999], part.size)
"""


class Files:
    """The methods of a c10d store that Terrace calls, with values in files."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def _file(self, key):
        return self.folder / key.replace("/", "_")

    def set(self, key, value):
        part = self.folder / f"part.{os.getpid()}"
        part.write_bytes(value)
        part.rename(self._file(key))

    def get(self, key):
        return self._file(key).read_bytes()

    def check(self, keys):
        return all(self._file(key).exists() for key in keys)

    def delete_key(self, key):
        found = self._file(key).exists()
        self._file(key).unlink(missing_ok=True)
        return found


class Stores(unittest.TestCase):
    def test_values_come_and_go(self):
        with tempfile.TemporaryDirectory() as directory:
            store = C10dStore(Files(directory))
            self.assertIsNone(store.get("a/b"))
            store.put("a/b", b"one")
            store.put("a/b", b"two")
            self.assertEqual((store.get("a/b"), store.wait("a/b")), (b"two", b"two"))
            store.remove("a/b")
            self.assertIsNone(store.get("a/b"))

    @unittest.skipUnless(list(pathlib.Path(os.environ["LIBTERRACE"]).parent.glob("../transport/ucx/terrace-ucx.so")),
                         "no UCX here")
    def test_ranks_meet(self):
        with tempfile.TemporaryDirectory() as directory:
            here = str(pathlib.Path(__file__).parent)
            ranks = [subprocess.Popen([sys.executable, "-c", RANK, here, directory, str(r), "2"], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      env=dict(os.environ, PYTHONPATH=PACKAGE, TERRACE_TIMEOUT="30"))
                     for r in range(2)]
            self.assertEqual([rank.communicate(timeout=100)[0] for rank in ranks], ["1.0 2\n"] * 2)


if __name__ == "__main__":
    unittest.main()

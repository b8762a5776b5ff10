#!/usr/bin/env python3
"""GPU buffers from Python, in communicators without MPI: real processes over UCX and shared memory. Uses the stand-in
(tests/support/gpu_module.cpp): host memory instead of GPUs, MPI instead of NCCL. Shows nothing about a GPU.

usage: gpu_test.py PACKAGE_DIRECTORY LIBTERRACE MODULE MPIRUN [MPIRUN_OPTION ...]
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE, LIBTERRACE, MODULE, *MPIRUN = sys.argv[1:]
RANKS = 4


class Gpu(unittest.TestCase):
    def run_ranks(self, what):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(__file__).with_name("gpu_ranks.py")
            done = subprocess.run([*MPIRUN, "-np", str(RANKS), sys.executable, program, PACKAGE, folder, what],
                                  text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "LIBTERRACE": LIBTERRACE, "TERRACE_GPU_MODULE": MODULE,
                                       "TERRACE_TIMEOUT": "30"})
            said = done.stdout + done.stderr
            self.assertEqual(len(list(pathlib.Path(folder).glob("done.*"))), RANKS, said)

    def test_buffers(self):
        self.run_ranks("plain")

    def test_tensors_of_torch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is missing")
        self.run_ranks("torch")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

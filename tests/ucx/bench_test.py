#!/usr/bin/env python3
"""terrace-bench with ranks that are started without a launcher. Asserts no time.

usage: bench_test.py TERRACE TERRACE_BENCH SOURCE_ROOT
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TERRACE, BENCH, ROOT = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:4])
del sys.argv[1:]
RANKS = 8


class Bench(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def run_ranks(self, *words, status=0, under=()):
        meeting = {**os.environ, "TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_SIZE": str(RANKS)}
        children = [subprocess.Popen([*under, BENCH, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     env={**meeting, "TERRACE_RANK": str(rank)}) for rank in range(RANKS)]
        said = [child.communicate(timeout=120) for child in children]
        self.assertEqual([child.returncode for child in children], [status] * RANKS, said)
        return said

    def test_measures_the_same_without_mpi(self):
        said = self.run_ranks("--plan", f"{ROOT}/tests/golden/two-by-four.plan.yaml", "--placement", "anywhere",
                              "--transport", "ucx", "--collective", "allreduce,alltoall", "-b", "1K", "-e", "64K",
                              "-n", "2", "--json", str(self.directory / "out.json"))
        self.assertIn("all results are exact", said[0][0])
        self.assertEqual([out for out, _ in said[1:]], [""] * (RANKS - 1))
        found = json.loads((self.directory / "out.json").read_text())
        self.assertEqual((found["ranks"], found["hosts"], found["mpi_version"]), (RANKS, 1, None))
        self.assertEqual({row["wrong"] for row in found["results"]}, {0})
        self.assertEqual({row["collective"] for row in found["results"]}, {"allreduce", "alltoall"})

    def test_what_takes_mpi_is_refused(self):
        plan = ["--plan", f"{ROOT}/tests/golden/two-by-four.plan.yaml", "--placement", "anywhere"]
        self.assertIn("--transport ucx", self.run_ranks(*plan, status=2)[0][1])
        self.assertIn("mpirun", self.run_ranks("--detect", status=2)[0][1])

    @unittest.skipIf(os.geteuid() != 0, "a /dev/shm of its own takes root")
    def test_one_rank_says_that_ranks_of_one_machine_share_no_memory(self):
        subprocess.run([TERRACE, "plan", "node:8", "-o", self.directory / "plan.yaml"], check=True, capture_output=True)
        said = self.run_ranks("--plan", str(self.directory / "plan.yaml"), "--transport", "ucx", status=2,
                              under=["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm; exec "$@"', "sh"])
        self.assertIn("ranks per node are 8 in the plan, and 1 1 1 1 1 1 1 1 in the job", said[0][1])
        self.assertIn("ranks 0-7 run on one machine with 8 different /dev/shm, as in containers", said[0][1])
        self.assertEqual(said[1:], [("", "")] * (RANKS - 1))


if __name__ == "__main__":
    unittest.main()

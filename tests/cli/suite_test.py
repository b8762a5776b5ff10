#!/usr/bin/env python3
"""tools/bench-suite on this machine: what it runs, merges and writes. Asserts no time.

usage: suite_test.py SOURCE_ROOT TERRACE TERRACE_BENCH MPIRUN [MPIRUN_OPTION ...]
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import unittest

from scratch import Scratch

ROOT, TERRACE, BENCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
MPIRUN = sys.argv[4:]


class Suite(Scratch):
    def suite(self, *arguments, status=0):
        done = subprocess.run([ROOT / "tools/bench-suite", *arguments], cwd=self.directory, text=True, timeout=280,
                              capture_output=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TERRACE": str(TERRACE), "TERRACE_BENCH": str(BENCH)})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_whole(self):
        text = self.suite("cluster.yaml", "--launch", shlex.join(MPIRUN), "--bench-options", "--placement anywhere",
                          "-b", "1K", "-e", "4K", "-f", "4", "-n", "2", "-o", "out")
        out = self.directory / "out"
        merged = json.loads((out / "suite.json").read_text())
        self.assertEqual(merged["collective"], "allreduce")
        names = [run["name"] for run in merged["runs"]]
        self.assertEqual(names[0], "baselines")
        for number, run in enumerate(merged["runs"], 1):
            self.assertIn(shlex.join(run["command"]), text)  # every line it runs is printed
            self.assertEqual(run["found"], json.loads((out / f"run-{number}.json").read_text()))
            rows = run["found"]["results"]
            expected = {"hierarchical", "mpi"} | ({"sequential", "flat-ring", "two-level"} if number == 1 else set())
            self.assertEqual({row["algorithm"] for row in rows}, expected)
            self.assertEqual({row["wrong"] for row in rows}, {0})
        told = "".join(merged["left_out"])
        for peer in ("btl_tcp_flags 1", "its ring", "HAN + adapt"):
            self.assertTrue(peer in names or peer in told, peer)
        table = (out / "suite.txt").read_text()
        self.assertIn(table, text)
        self.assertIn("Wrong elements in all results: 0.", table)
        for word in ("1 KiB", "4 KiB", "sequential", "flat-ring", "mpi"):
            self.assertIn(word, table)
        plots = [(out / "suite.png").exists(), (out / "suite.svg").exists()]
        self.assertEqual(plots, 2 * ["no plots: python3-matplotlib is not there" not in text])

    def test_refuses(self):
        self.assertRegex(self.suite("cluster.yaml", status=2), "where to run\\?|is up, not pair")
        self.assertIn("none.yaml", self.suite("none.yaml", "--emulate", status=2))
        self.assertIn("invalid choice", self.suite("cluster.yaml", "--collective", "scan", status=2))

    def test_help(self):
        self.assertIn("examples:", self.suite("--help"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

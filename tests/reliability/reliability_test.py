#!/usr/bin/env python3
"""Guarantees that only many runs of a program can test.

usage: reliability_test.py CASE TERRACE DIGEST SOURCE_ROOT -- MPIRUN...
"""
import concurrent.futures
import hashlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

CASE, TERRACE, DIGEST, ROOT = sys.argv[1:5]
MPIRUN = sys.argv[6:]
CLUSTERS = pathlib.Path(ROOT) / "topologies"


def share(all, usual, what):
    """Returns the number of runs: all, or `usual` without TERRACE_TEST_ALL."""
    if "TERRACE_TEST_ALL" in os.environ:
        return all
    print(f"left out: {all - usual} of {all} {what}")
    return usual


def plan(cluster, output):
    return [TERRACE, "plan", str(CLUSTERS / cluster / "cluster.yaml"), "-o", str(output)]


class Planner(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name) / "plan.yaml"

    def make(self, cluster, file=None):
        file = file or self.file
        subprocess.run(plan(cluster, file), check=True, stdout=subprocess.DEVNULL)
        return file.read_bytes()

    def test_many_runs_give_one_file(self):
        runs = share(100, 20, "plans for one cluster")
        files = [self.file.with_suffix(f".{n}") for n in range(runs)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            seen = {hashlib.sha256(made).hexdigest() for made in pool.map(lambda f: self.make("uneven-racks", f), files)}
        print(f"{runs} runs, {len(seen)} sha256")
        self.assertEqual(len(seen), 1)

    def test_killed_many_times_it_leaves_the_old_file_or_the_new(self):
        times = share(100, 20, "planners that are killed")
        start = time.monotonic()
        new = self.make("two-by-four")
        took = time.monotonic() - start
        old = self.make("four-and-two")
        self.assertNotEqual(old, new)
        dice, left = random.Random(1), []
        for _ in range(times):
            self.file.write_bytes(old)
            run = subprocess.Popen(plan("two-by-four", self.file), stdout=subprocess.DEVNULL)
            time.sleep(took * dice.uniform(0.5, 1.1))
            run.kill()
            run.wait()
            left.append(self.file.read_bytes())
        print(f"killed {times} times: {left.count(old)} old files, {left.count(new)} new, "
              f"{sum(f not in (old, new) for f in left)} torn")
        self.assertLessEqual(set(left), {old, new})


class Launches(unittest.TestCase):
    def test_have_the_same_bits_under_load(self):
        runs = share(200, 10, "launches under load")
        load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() // 2 or 1)]
        try:
            seen = {subprocess.run([*MPIRUN, "-np", "4", DIGEST], check=True, text=True, capture_output=True,
                                   stdin=subprocess.DEVNULL).stdout for _ in range(runs)}
        finally:
            for each in load:
                each.kill()
                each.wait()
        lines = {line for out in seen for line in out.splitlines()}
        print(f"{runs} launches on 4 ranks: " + ", ".join(sorted(lines)))
        # A line per rank and plan. All ranks have the same lines.
        self.assertEqual({len(out.splitlines()) for out in seen}, {12})
        self.assertEqual(sorted(line.split()[0] for line in lines), ["direct", "ring", "shared_memory"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], CASE])

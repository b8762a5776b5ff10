#!/usr/bin/env python3
"""docs/examples/survive.cpp: three ranks train on when the fourth is killed.

usage: survive_test.py PROGRAM
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)


class Survive(unittest.TestCase):
    def test_training_goes_on_without_a_rank_that_is_killed(self):
        with tempfile.TemporaryDirectory() as directory:
            ranks = [subprocess.Popen([PROGRAM, "1000"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**os.environ, "TERRACE_BOOTSTRAP": f"file:{directory}/meeting",
                                           "TERRACE_RANK": str(rank), "TERRACE_SIZE": "4"}) for rank in range(4)]
            for rank in ranks:
                self.addCleanup(lambda child=rank: (child.kill(), child.communicate()))
            self.assertEqual(ranks[0].stdout.readline(), "4 ranks train\n")
            time.sleep(0.3)
            ranks[3].kill()
            said = [rank.communicate(timeout=60) for rank in ranks[:3]]
        self.assertEqual([rank.returncode for rank in ranks[:3]], [0, 0, 0], said)
        self.assertEqual(said[0][0], "3 ranks, 1000 steps: 3.000000\n")
        for _, errors in said:
            self.assertRegex(errors, r"^step \d+: rank 3 on \S+ has died")


if __name__ == "__main__":
    unittest.main()

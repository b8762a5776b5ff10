#!/usr/bin/env python3
"""Nodes that are cut off at random points of random collectives: who is named, and who goes on.

usage: links_test.py CASES SURVIVOR [MPIRUN ...]     as job.py says

Takes root, and emulated nodes: left out where there are none. With TERRACE_TEST_ALL=1 there are 25 cuts of each kind,
else one.
"""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True

from job import EVERYTHING, FAILURE_TIMEOUT, MPIRUN, ROOT, SEED, TRANSPORT, VCLUSTER, Job, Jobs, after


may_block = unittest.skipIf(not MPIRUN and not EVERYTHING, "UCX 1.13.1 may be blocked in connect(2)")


class CutLinks(Jobs):
    """Three nodes of two ranks, one of which is cut off."""

    @classmethod
    def setUpClass(cls):
        def leave_out(why):
            print(f"left out: failures of links over {TRANSPORT}: {why}", flush=True)
            raise unittest.SkipTest(why)
        if os.geteuid() != 0:
            leave_out("emulated nodes take root")
        end = time.monotonic() + 60  # another test may have some
        while True:
            up = subprocess.run([VCLUSTER, "up", str(ROOT / "tests/failures/three-by-two.yaml")], text=True,
                                capture_output=True)
            if up.returncode == 0:
                break
            if "is up already" not in up.stderr or time.monotonic() > end:
                leave_out(f"no emulated nodes here: {up.stderr.strip()}")
            time.sleep(1)
        cls.addClassCleanup(lambda: subprocess.run([VCLUSTER, "down"], capture_output=True))

    def link(self, *words):
        subprocess.run([VCLUSTER, "link", *words], check=True, capture_output=True)

    def expect_named_and_left_out(self, *way):
        """All others name the ranks of a node that is cut off in this way, and go on without them."""
        dice = random.Random(f"{SEED} {way}")
        count = 25 if EVERYTHING else 1
        if not EVERYTHING:
            print(f"left out: {25 - count} of 25 times link {' '.join(way)} over {TRANSPORT}")
        took = []
        for n in range(count):
            job = Job(6, dice.randrange(1 << 30), "shrink", hosts=["n0", "n0", "n1", "n1", "n2", "n2"])
            node = dice.randrange(1 if MPIRUN else 0, 3)  # mpirun is on the first one
            try:
                job.wait_until_ready()
                time.sleep(dice.uniform(0, 0.3))
                with self.subTest(way=way, n=n, node=node):
                    since = time.monotonic()
                    self.link(f"n{node}", *way)
                    took.append(self.expect_verdict(job, {2 * node, 2 * node + 1}, "unreachable", since,
                                                    FAILURE_TIMEOUT))
                    self.assertTrue(job.wait_until(lambda _: all(
                        job.of(2 * node + r, "partitioned") for r in (0, 1))), job.events())
                    others = [job.pids[rank] for rank in range(6) if rank // 2 != node]
                    self.assertTrue(job.wait_until(lambda events: all(
                        any(event[0] == "ready" and event[2].endswith(" 4") for event in events[pid])
                        for pid in others)), job.events())
            finally:
                self.link(f"n{node}", "up")
                job.end()
        late = sum(each > FAILURE_TIMEOUT + 1 for each in took)
        print(f"{TRANSPORT}, link {' '.join(way)}: {len(took)} of {count} named by all, {late} later than "
              f"{FAILURE_TIMEOUT + 1:g} s{after(took)}", flush=True)

    @may_block
    def test_down(self):
        self.expect_named_and_left_out("down")

    @may_block
    def test_outgoing_direction_down(self):
        self.expect_named_and_left_out("down", "--outgoing")

    def test_a_rank_of_another_node_that_is_alone_there_is_named_when_it_dies(self):
        job = self.job(3, 7, hosts=["n0", "n1", "n2"]) if not MPIRUN else self.job(6, 7, hosts=["n0"])
        job.wait_until_ready()
        since = time.monotonic()
        os.kill(job.pids[1], signal.SIGKILL)
        took = self.expect_verdict(job, {1}, "died", since, FAILURE_TIMEOUT)
        print(f"{TRANSPORT}, killed on another node: named after {took:.3f} s", flush=True)


if __name__ == "__main__":
    unittest.main()

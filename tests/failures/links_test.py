#!/usr/bin/env python3
"""Nodes that are cut off at random points of random collectives, and ranks alone on their nodes that are stopped.
Who is named, and who goes on.

usage: links_test.py CASES SURVIVOR [MPIRUN ...]     as job.py says; CASES is CutLinks, Deaths or LoneRanks

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


class Nodes(Jobs):
    """Jobs on emulated nodes."""
    CLUSTER = ""

    @classmethod
    def setUpClass(cls):
        def leave_out(why):
            print(f"left out: failures of links over {TRANSPORT}: {why}", flush=True)
            raise unittest.SkipTest(why)
        if os.geteuid() != 0:
            leave_out("emulated nodes take root")
        end = time.monotonic() + 60  # another test may have some
        while True:
            up = subprocess.run([VCLUSTER, "up", str(ROOT / "tests/failures" / cls.CLUSTER)], text=True,
                                capture_output=True)
            if up.returncode == 0:
                break
            if "is up already" not in up.stderr or time.monotonic() > end:
                leave_out(f"no emulated nodes here: {up.stderr.strip()}")
            time.sleep(1)
        cls.addClassCleanup(lambda: subprocess.run([VCLUSTER, "down"], capture_output=True))


class CutLinks(Nodes):
    """Three nodes of two ranks, one of which is cut off."""
    CLUSTER = "three-by-two.yaml"

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
                        job.of(2 * node + r, "partitioned") for r in (0, 1))), f"{job.events()}\n{job.said()}")
                    others = [job.pids[rank] for rank in range(6) if rank // 2 != node]
                    self.assertTrue(job.wait_until(lambda events: all(
                        any(event[0] == "ready" and event[2].endswith(" 4") for event in events[pid])
                        for pid in others)), f"{job.events()}\n{job.said()}")
            finally:
                self.link(f"n{node}", "up")
                job.end()
        late = sum(each > FAILURE_TIMEOUT + 1 for each in took)
        print(f"{TRANSPORT}, link {' '.join(way)}: {len(took)} of {count} named by all, {late} later than "
              f"{FAILURE_TIMEOUT + 1:g} s{after(took)}", flush=True)

    def test_down(self):
        self.expect_named_and_left_out("down")

    def test_outgoing_direction_down(self):
        self.expect_named_and_left_out("down", "--outgoing")

    def test_a_rank_of_another_node_that_is_alone_there_is_named_when_it_dies(self):
        job = self.job(3, 7, hosts=["n0", "n1", "n2"]) if not MPIRUN else self.job(6, 7, hosts=["n0"])
        job.wait_until_ready()
        since = time.monotonic()
        os.kill(job.pids[1], signal.SIGKILL)
        took = self.expect_verdict(job, {1}, "died", since, FAILURE_TIMEOUT)
        print(f"{TRANSPORT}, killed on another node: named after {took:.3f} s", flush=True)

    def test_both_ranks_of_a_node_that_are_stopped_are_named(self):
        job = self.job(6, 8, hosts=["n0", "n0", "n1", "n1", "n2", "n2"])
        job.wait_until_ready()
        since = time.monotonic()
        for rank in (2, 3):
            os.kill(job.pids[rank], signal.SIGSTOP)
        took = self.expect_verdict(job, {2, 3}, "stopped", since, FAILURE_TIMEOUT)
        print(f"{TRANSPORT}, both ranks of a node stopped: named after {took:.3f} s", flush=True)


class Deaths(Nodes):
    """Three nodes of two ranks, one of which dies; the others go on."""
    CLUSTER = "three-by-two.yaml"

    def expect_named_and_left_behind(self, number, kind):
        dice, took = random.Random(f"{SEED} {kind}"), []
        count = 50 if EVERYTHING else 1
        if not EVERYTHING:
            print(f"left out: {50 - count} of 50 times a rank of another node {kind} over {TRANSPORT}")
        for n in range(count):
            job = self.job(6, dice.randrange(1 << 30), "shrink", hosts=["n0", "n0", "n1", "n1", "n2", "n2"])
            job.wait_until_ready()
            time.sleep(dice.uniform(0, 0.3))
            victim = dice.randrange(6)
            with self.subTest(kind=kind, n=n, victim=victim):
                since = time.monotonic()
                os.kill(job.pids[victim], number)
                took.append(self.expect_verdict(job, {victim}, "died", since, FAILURE_TIMEOUT))
                self.expect_others_go_on(job, {job.pids[rank] for rank in range(6) if rank != victim})
            job.end()
        late = sum(each > FAILURE_TIMEOUT + 1 for each in took)
        print(f"{TRANSPORT}, {kind} on another node: {len(took)} of {count} named by all, {late} later than "
              f"{FAILURE_TIMEOUT + 1:g} s{after(took)}", flush=True)

    def test_killed(self):
        self.expect_named_and_left_behind(signal.SIGKILL, "killed")

    def test_exits(self):
        self.expect_named_and_left_behind(signal.SIGUSR1, "exits")


class LoneRanks(Nodes):
    """Three nodes of one rank."""
    CLUSTER = "three-by-one.yaml"

    def lone_job(self, seed, *words):
        job = self.job(3, seed, *words, hosts=["n0", "n1", "n2"])
        job.wait_until_ready()
        return job

    def test_who_is_stopped_is_named(self):
        dice, took = random.Random(SEED), []
        count = 25 if EVERYTHING else 1
        if not EVERYTHING:
            print(f"left out: {25 - count} of 25 times a rank alone on its node is stopped over {TRANSPORT}")
        for n in range(count):
            job = self.lone_job(dice.randrange(1 << 30))
            time.sleep(dice.uniform(0, 0.3))
            victim = dice.randrange(3)
            with self.subTest(n=n, victim=victim):
                since = time.monotonic()
                os.kill(job.pids[victim], signal.SIGSTOP)
                took.append(self.expect_verdict(job, {victim}, "stopped", since, FAILURE_TIMEOUT))
            job.end()
        late = sum(each > FAILURE_TIMEOUT + 1 for each in took)
        print(f"{TRANSPORT}, stopped alone on its node: {len(took)} of {count} named by all, {late} later than "
              f"{FAILURE_TIMEOUT + 1:g} s{after(took)}", flush=True)

    def test_who_computes_is_not_given_up(self):
        job = self.lone_job(1, "compute", str(3 * FAILURE_TIMEOUT))
        time.sleep(FAILURE_TIMEOUT)
        for rank in range(3):
            self.assertEqual([event[0] for event in job.events()[job.pids[rank]] if event[0] != "ready"], [])

    def test_who_is_stopped_for_half_of_the_time_is_not_given_up(self):
        job = self.lone_job(2)
        os.kill(job.pids[1], signal.SIGSTOP)
        time.sleep(FAILURE_TIMEOUT / 2)
        os.kill(job.pids[1], signal.SIGCONT)
        time.sleep(FAILURE_TIMEOUT)
        self.assertFalse([job.of(rank, "failed") for rank in range(3) if job.of(rank, "failed")])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Ranks, or links between nodes, fail at random points of random collectives. The others name them, and go on.

usage: nodes_test.py CASES SURVIVOR [MPIRUN ...]     (job.py explains the arguments; CASES is Nodes or LoneRanks)

Requires root and emulated nodes, and is skipped without them. With TERRACE_TEST_ALL=1 there are 204 failures between
nodes of several ranks, 34 of each kind, else one of each.
"""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True

from job import (EVERYTHING, FAILURE_TIMEOUT, KINDS, MPIRUN, ROOT, SEED, TRANSPORT, VCLUSTER, Job, Jobs, after,
                 looks_for_memory_for_ever, once)


class EmulatedNodes(Jobs):
    """Jobs on emulated nodes."""
    CLUSTER = ""

    @classmethod
    def setUpClass(cls):
        def leave_out(why):
            print(f"left out: failures between nodes over {TRANSPORT}: {why}", flush=True)
            raise unittest.SkipTest(why)
        if os.geteuid() != 0:
            leave_out("emulated nodes take root")
        end = time.monotonic() + 60  # another test may use them
        while True:
            up = subprocess.run([VCLUSTER, "up", str(ROOT / "tests/failures" / cls.CLUSTER)], text=True,
                                capture_output=True)
            if up.returncode == 0:
                break
            if "is up already" not in up.stderr or time.monotonic() > end:
                leave_out(f"no emulated nodes here: {up.stderr.strip()}")
            time.sleep(1)
        cls.addClassCleanup(lambda: subprocess.run([VCLUSTER, "down"], capture_output=True))


class Nodes(EmulatedNodes):
    """Three nodes of two ranks. One rank fails at a random point, or the link of one node; the others go on."""
    CLUSTER = "three-by-two.yaml"
    HOSTS = ["n0", "n0", "n1", "n1", "n2", "n2"]

    def link(self, *words):
        subprocess.run([VCLUSTER, "link", *words], check=True, capture_output=True)

    def expect_named_and_left_behind(self, kind, fail, culprits_of, how):
        """
        @param fail makes a rank of a job fail   @param culprits_of returns the ranks that the others must name
        """
        dice, took, endless = random.Random(f"{SEED} {kind}"), [], 0
        count = 34 if EVERYTHING else 1  # of six kinds: 204
        if not EVERYTHING:
            print(f"left out: {34 - count} of 34 times {kind}, between nodes over {TRANSPORT}")
        for n in range(count):
            job = Job(6, dice.randrange(1 << 30), "shrink", hosts=self.HOSTS)
            try:
                job.wait_until_ready()
                time.sleep(dice.uniform(0, 0.3))
                # mpirun is on the first node. If that is cut off, mpirun can neither start nor end the other ranks.
                victim = dice.randrange(2 if MPIRUN and how == "unreachable" else 0, 6)
                culprits = culprits_of(victim)
                with self.subTest(kind=kind, n=n, victim=victim):
                    since = time.monotonic()
                    fail(job, victim)
                    if looks_for_memory_for_ever(kind, job.pids[victim]):
                        endless += 1
                        continue
                    took.append(self.expect_verdict(job, culprits, how, since, FAILURE_TIMEOUT))
                    self.expect_others_go_on(job, {job.pids[rank] for rank in range(6) if rank not in culprits})
                    if how == "unreachable":
                        self.assertTrue(job.wait_until(lambda _: all(job.of(r, "partitioned") for r in culprits)),
                                        f"{job.events()}\n{job.said()}")
            finally:
                if how == "unreachable":
                    self.link(f"n{victim // 2}", "up")
                job.end()
        late = sum(each > FAILURE_TIMEOUT + 1 for each in took)
        print(f"{TRANSPORT}, {kind}, between nodes: {len(took)} of {count} named by all, {late} later than "
              f"{FAILURE_TIMEOUT + 1:g} s{after(took)}", flush=True)
        if endless > 0:
            print(f"left out: {endless} of {count} that did not end without memory", flush=True)

    def expect_process_named(self, kind):
        fail, how = KINDS[kind]
        self.expect_named_and_left_behind(kind, lambda job, rank: fail(job.pids[rank]), lambda rank: {rank}, how)

    def expect_node_named(self, *way):
        self.expect_named_and_left_behind(f"link {' '.join(way)}", lambda _, rank: self.link(f"n{rank // 2}", *way),
                                          lambda rank: {rank // 2 * 2, rank // 2 * 2 + 1}, "unreachable")

    @once
    def test_who_computes_between_calls_is_not_given_up(self):
        """Ranks outnumber cores and compute for longer than failure_timeout, but answer from time to time."""
        job = self.job(6, SEED, "busy", str(FAILURE_TIMEOUT), hosts=self.HOSTS)
        job.wait_until_ready()
        time.sleep(60 if EVERYTHING else FAILURE_TIMEOUT)
        self.assertEqual([event for events in job.events().values() for event in events if event[0] != "ready"], [])

    def test_killed(self):
        self.expect_process_named("killed")

    @once
    def test_exits(self):
        self.expect_process_named("exits")

    @once
    def test_out_of_memory(self):
        self.expect_process_named("out of memory")

    def test_stopped(self):
        self.expect_process_named("stopped")

    def test_link_down(self):
        self.expect_node_named("down")

    @once
    def test_outgoing_direction_down(self):
        self.expect_node_named("down", "--outgoing")

    def test_a_rank_of_another_node_that_is_alone_there_is_named_when_it_dies(self):
        job = self.job(3, 7, hosts=["n0", "n1", "n2"]) if not MPIRUN else self.job(6, 7, hosts=["n0"])
        job.wait_until_ready()
        since = time.monotonic()
        os.kill(job.pids[1], signal.SIGKILL)
        took = self.expect_verdict(job, {1}, "died", since, FAILURE_TIMEOUT)
        print(f"{TRANSPORT}, killed on another node: named after {took:.3f} s", flush=True)

    @once
    def test_both_ranks_of_a_node_that_are_stopped_are_named(self):
        job = self.job(6, 8, hosts=self.HOSTS)
        job.wait_until_ready()
        since = time.monotonic()
        for rank in (2, 3):
            os.kill(job.pids[rank], signal.SIGSTOP)
        took = self.expect_verdict(job, {2, 3}, "stopped", since, FAILURE_TIMEOUT)
        print(f"{TRANSPORT}, both ranks of a node stopped: named after {took:.3f} s", flush=True)


@once
class LoneRanks(EmulatedNodes):
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

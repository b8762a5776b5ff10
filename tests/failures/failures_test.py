#!/usr/bin/env python3
"""Ranks fail at random points of random collectives. The others name them in time, and leave nothing behind.

usage: failures_test.py CASES SURVIVOR [MPIRUN ...]     (job.py explains the arguments)

With TERRACE_TEST_ALL=1 there are 200 failures, else one of each kind.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True

from job import (EVERYTHING, FAILURE_TIMEOUT, KINDS, MPIRUN, RECOVERY, SEED, TRANSPORT, Job, Jobs, after,
                 looks_for_memory_for_ever, once)

RANKS = 4
FINALIZES = MPIRUN and "ulfm" not in RECOVERY  # with ULFM it needs all ranks, and may hang


class Failures(Jobs):
    def expect_named_in_time(self, kind, *words):
        """Lets ranks fail in this way at random points. Expects all others to name them."""
        do, how = KINDS[kind]
        dice = random.Random(f"{SEED} {kind}")
        count = 50 if EVERYTHING else 1
        if not EVERYTHING:
            print(f"left out: {50 - count} of 50 times {kind} over {TRANSPORT}")
        took, finalized, endless = [], 0, 0
        for n in range(count):
            job = Job(RANKS, dice.randrange(1 << 30), *words)
            try:
                job.wait_until_ready()
                time.sleep(dice.uniform(0, 0.3))
                victim = dice.randrange(RANKS)
                with self.subTest(kind=kind, n=n, victim=victim):
                    since = time.monotonic()
                    do(job.pids[victim])
                    if looks_for_memory_for_ever(kind, job.pids[victim]):
                        endless += 1
                        continue
                    took.append(self.expect_verdict(job, {victim}, how, since, FAILURE_TIMEOUT))
                    self.assertLess(took[-1], FAILURE_TIMEOUT + 1 + 5)  # 5 s more on a loaded machine
                    others = [rank for rank in range(RANKS) if rank != victim]
                    self.assertTrue(job.wait_until(lambda _: all(job.of(r, "destroyed") for r in others), 20))
                    if FINALIZES:
                        finalized += job.wait_until(lambda _: all(job.of(r, "finalized") for r in others), 20)
            finally:
                job.end()
        late = sum(each > FAILURE_TIMEOUT + 1 for each in took)
        print(f"{TRANSPORT}, {kind}: {len(took)} of {count} named by all, {late} later than {FAILURE_TIMEOUT + 1:g} s"
              + after(took) + (f"; MPI_Finalize returned in {finalized}" if FINALIZES else ""), flush=True)
        if endless > 0:
            print(f"left out: {endless} of {count} that did not end without memory", flush=True)
        self.assertEqual(len(took) + endless, count)
        self.assertEqual(finalized, len(took) if FINALIZES else 0)
        self.assertLessEqual(endless, 1 + count // 10)

    def test_killed(self):
        self.expect_named_in_time("killed")

    def test_exits(self):
        self.expect_named_in_time("exits")

    def test_out_of_memory(self):
        self.expect_named_in_time("out of memory")

    def test_stopped(self):
        self.expect_named_in_time("stopped")

    def test_killed_while_plans_change(self):
        self.expect_named_in_time("killed", "changes")

    def test_stopped_while_plans_change(self):
        self.expect_named_in_time("stopped", "changes")

    @unittest.skipIf(MPIRUN, "MPI makes its own communicators by calls that have no timeout")
    def test_killed_while_parts_and_windows_are_made(self):
        self.expect_named_in_time("killed", "parts")

    @unittest.skipIf(MPIRUN, "MPI makes its own communicators by calls that have no timeout")
    def test_stopped_while_parts_and_windows_are_made(self):
        self.expect_named_in_time("stopped", "parts")

    def test_the_others_go_on_by_shrink_until_fewer_than_half_are_left(self):
        job = self.job(5, 5, "shrink")
        job.wait_until_ready()
        dice, left, took = random.Random(SEED), set(job.pids.values()), []
        for kind in ("killed", "stopped"):
            time.sleep(0.2)
            victim = dice.choice(sorted(left))
            left.remove(victim)
            KINDS[kind][0](victim)
            took.append(self.expect_others_go_on(job, left))
        print(f"{TRANSPORT}: from the error to the first right result of {', '.join(map(str, (4, 3)))} ranks "
              f"{', '.join(f'{t:.3f}' for t in took)} s", flush=True)

    def test_signals_interrupt_nothing(self):
        """Communicators are created, used and shrunk while timers send 10,000 signals a second."""
        for n in range(20 if EVERYTHING else 1):
            with self.subTest(n=n):
                job = self.job(RANKS, SEED + n, "shrink", SIGNALS_A_SECOND="10000", TERRACE_LOG="info")
                job.wait_until_ready()
                self.assertIn("shm in nodes", job.said())
                time.sleep(0.5)
                os.kill(job.pids[RANKS - 1], signal.SIGKILL)
                self.expect_others_go_on(job, {pid for rank, pid in job.pids.items() if rank < RANKS - 1})
                self.assertNotIn("cannot share", job.said())
                job.end()

    def test_seven_of_eight_and_one_rack_of_two_go_on(self):
        for ranks, victims in ((8, {3}), (12, set(range(6, 12)))):
            job = self.job(ranks, 8, "shrink")
            job.wait_until_ready()
            for rank in victims:
                os.kill(job.pids[rank], signal.SIGKILL)
            left = {pid for rank, pid in job.pids.items() if rank not in victims}
            took = self.expect_others_go_on(job, left)
            print(f"{TRANSPORT}: {ranks} -> {len(left)} ranks: from the error to the first right result {took:.3f} s",
                  flush=True)

    def test_who_fails_while_others_agree_is_named_by_all_or_none(self):
        dice = random.Random(f"{SEED} agree")
        count = 20 if EVERYTHING else 1
        if not EVERYTHING:
            print(f"left out: {20 - count} of 20 times two that are killed at almost the same time over {TRANSPORT}")
        for n in range(count):
            with self.subTest(n=n):
                job = self.job(RANKS + 2, dice.randrange(1 << 30), "shrink")
                job.wait_until_ready()
                victims = dice.sample(sorted(job.pids.values()), 2)
                os.kill(victims[0], signal.SIGKILL)
                time.sleep(dice.uniform(0, 0.05))
                os.kill(victims[1], signal.SIGKILL)
                left = set(job.pids.values()) - set(victims)
                self.expect_others_go_on(job, left)
                named = {tuple(words for name, _, words in job.events()[pid] if name == "failed") for pid in left}
                self.assertEqual(len(named), 1, named)
                job.end()

    @once
    def test_who_computes_is_not_given_up(self):
        for thread in [], ["thread"]:
            with self.subTest(thread=thread):
                job = self.job(RANKS, 1, "compute", str(3 * FAILURE_TIMEOUT), *thread)
                job.wait_until_ready()
                time.sleep(FAILURE_TIMEOUT)
                for rank in range(RANKS):
                    self.assertIsNone(job.of(rank, "failed"), job.events())
                    self.assertIsNone(job.of(rank, "error"), job.events())
                job.end()

    @once
    def test_who_is_stopped_for_half_of_the_time_is_not_given_up(self):
        job = self.job(RANKS, 2)
        job.wait_until_ready()
        os.kill(job.pids[2], signal.SIGSTOP)
        time.sleep(FAILURE_TIMEOUT / 2)
        os.kill(job.pids[2], signal.SIGCONT)
        time.sleep(FAILURE_TIMEOUT)
        self.assertFalse([job.of(rank, "failed") for rank in range(RANKS) if job.of(rank, "failed")])

    @once
    def test_two_that_fail_at_once_are_both_named(self):
        job = self.job(RANKS + 1, 3)
        job.wait_until_ready()
        since = time.monotonic()
        os.kill(job.pids[1], signal.SIGSTOP)
        os.kill(job.pids[3], signal.SIGSTOP)
        self.expect_verdict(job, {1, 3}, "stopped", since, FAILURE_TIMEOUT)

    def test_who_is_in_another_pid_namespace_is_named(self):
        addresses = subprocess.run(["hostname", "-I"], text=True, capture_output=True).stdout.split()
        if MPIRUN or os.geteuid() != 0 or not addresses:
            self.skipTest("over UCX, as root, and where there is a network interface besides loopback")
        for number, how in ((signal.SIGKILL, "died"), (signal.SIGSTOP, "stopped")):
            job = self.job(RANKS - 1, 9, under=["unshare", "--pid", "--fork", "--kill-child", "--"])
            job.wait_until_ready()
            since = time.monotonic()
            os.kill(job.pids[1], number)
            took = self.expect_verdict(job, {1}, how, since, FAILURE_TIMEOUT)
            print(f"{TRANSPORT}, {how} in a PID namespace of its own: named after {took:.3f} s", flush=True)

    @once
    def test_with_0_the_deadline_alone_counts(self):
        job = self.job(RANKS, 4, TERRACE_FAILURE_TIMEOUT="0", TERRACE_TIMEOUT="2")
        job.wait_until_ready()
        os.kill(job.pids[1], signal.SIGSTOP)
        self.assertTrue(job.wait_until(lambda _: all(job.of(rank, "error") for rank in (0, 2, 3)), 30), job.events())
        # The first rank to time out leaves. Over UCX the others may notice that before their own deadline.
        self.assertTrue(any("timed out after 2 s" in job.of(rank, "error")[2] for rank in (0, 2, 3)), job.events())

    @once
    @unittest.skipUnless("TERRACE" in os.environ, "TERRACE names the program terrace")
    def test_dumps_of_those_that_wait_say_who_is_to_blame(self):
        dumps = self.enterContext(tempfile.TemporaryDirectory())
        job = self.job(RANKS, 4, TERRACE_DUMP=f"{dumps}/stuck")
        job.wait_until_ready()
        os.kill(job.pids[2], signal.SIGSTOP)
        self.assertTrue(job.wait_until(lambda _: all(job.of(rank, "failed") for rank in (0, 1, 3)), 30), job.events())
        page = subprocess.run([os.environ["TERRACE"], "doctor", "--dumps", dumps], text=True, capture_output=True)
        self.assertEqual(page.returncode, 0, page.stderr)
        self.assertRegex(page.stdout, r"^\d of 3 ranks wait for rank 2 in the end, which has written no dump")

    def test_nothing_stays_behind_of_communicators_that_failed(self):
        if MPIRUN:
            self.skipTest("a job of MPI takes no new processes")
        cycles = 1000 if EVERYTHING else 20
        if not EVERYTHING:
            print(f"left out: {1000 - cycles} of 1000 communicators that fail")
        job = self.job(2, 6, "cycles", str(cycles))
        for child in job.children:
            child.wait(timeout=1200)
        for events in job.events().values():
            kept = [words for name, _, words in events if name == "kept"]
            self.assertEqual([event for event in events if event[0] in ("wrong", "error")], [], job.said())
            if kept:  # victims write none
                self.assertEqual(kept[0], kept[1], "descriptors, threads, mappings of shared memory")
                print(f"{cycles} communicators that failed: {kept[1]} descriptors, threads, mappings, as after 5")


if __name__ == "__main__":
    unittest.main()

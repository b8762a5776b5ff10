#!/usr/bin/env python3
"""Ranks that fail at random points of random collectives: who is named, how soon, and what is left behind.

usage: failures_test.py CASES SURVIVOR [MPIRUN ...]     over UCX, or over MPI where mpirun is given

CASES is Failures, on this machine, or CutLinks, on emulated nodes, which takes root. With TERRACE_TEST_ALL=1 there are
200 failures, else a few of each kind.
"""
import os
import pathlib
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

CASES, SURVIVOR, MPIRUN = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.argv[1:] = [CASES]
TRANSPORT = "mpi" if MPIRUN else "ucx"
RANKS = 4
SEED = int(os.environ.get("TERRACE_TEST_SEED", "25"))
EVERYTHING = "TERRACE_TEST_ALL" in os.environ
FAILURE_TIMEOUT = 2.0 if EVERYTHING else 1.0


class Job:
    """Processes that make collectives until they are ended, and what they write down."""

    def __init__(self, ranks, seed, *words, hosts=None, **variables):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        environment = {**os.environ, "TERRACE_FAILURE_TIMEOUT": str(FAILURE_TIMEOUT), "TERRACE_LOG": "off",
                       "UCX_LOG_LEVEL": "fatal", **variables}
        command = [SURVIVOR, TRANSPORT, str(self.directory), str(seed), *words]
        self.output = open(self.directory / "output", "w")
        if hosts and MPIRUN:
            commands = [([VCLUSTER, "run", "--mpi-arg=--enable-recovery", "--", *command], {})]
        elif hosts:
            commands = [([VCLUSTER, "exec", hosts[rank], "--", *command],
                         {"TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_RANK": str(rank),
                          "TERRACE_SIZE": str(ranks)}) for rank in range(ranks)]
        elif MPIRUN:
            commands = [([*MPIRUN, "--enable-recovery", "-np", str(ranks), *command], {})]
        else:
            commands = [(command, {"TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_RANK": str(rank),
                                   "TERRACE_SIZE": str(ranks)}) for rank in range(ranks)]
        self.children = [subprocess.Popen(line, env={**environment, **more}, stdin=subprocess.DEVNULL,
                                          stdout=self.output, stderr=self.output) for line, more in commands]
        self.ranks = ranks
        self.pids = {}

    def events(self):
        """By pid: the events that its process has written, as (name, time, words)."""
        found = {}
        for file in self.directory.glob("*.events"):
            lines = [line.split(" ", 2) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            found[int(file.stem)] = [(name, float(at), words.strip()) for name, at, words in lines]
        return found

    def wait_until(self, holds, patience=60.0):
        """Whether `holds(events)` comes true in time."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if holds(self.events()):
                return True
            time.sleep(0.02)
        return False

    def wait_until_ready(self):
        def ready(events):
            self.pids = {int(words.split()[0]): pid for pid, all in events.items() for name, _, words in all
                         if name == "ready"}
            return len(self.pids) == self.ranks
        if not self.wait_until(ready):
            raise AssertionError(f"not ready: {self.events()}\n{self.said()}")

    def of(self, rank, name):
        """The first event of this name of a rank; None where there is none."""
        return next((event for event in self.events().get(self.pids[rank], []) if event[0] == name), None)

    def said(self):
        return (self.directory / "output").read_text()

    def end(self):
        pids = set(self.events())
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for child in self.children:
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.output.close()
        shutil.rmtree(self.directory)


def after(seconds):
    return f", after {statistics.median(seconds):.3f} s (median), {max(seconds):.3f} s at most" if seconds else ""


def exhaust_memory(pid):
    resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))


ROOT = pathlib.Path(__file__).resolve().parents[2]
VCLUSTER = str(ROOT / "tools/vcluster")

KINDS = {
    "killed": (lambda pid: os.kill(pid, signal.SIGKILL), "died"),
    "exits": (lambda pid: os.kill(pid, signal.SIGUSR1), "died"),
    "out of memory": (exhaust_memory, "died"),
    "stopped": (lambda pid: os.kill(pid, signal.SIGSTOP), "stopped"),
}


# What differs between transports is how ranks fail and go on; the rest is shown over UCX.
once = unittest.skipIf(MPIRUN and not EVERYTHING, "over UCX, and over MPI with TERRACE_TEST_ALL=1")


class Jobs(unittest.TestCase):
    def job(self, *arguments, **variables):
        job = Job(*arguments, **variables)
        self.addCleanup(job.end)
        return job

    def expect_verdict(self, job, culprits, how, since, patience):
        """All others name the same ranks, in time. Returns the seconds that the last of them took."""
        others = [rank for rank in range(job.ranks) if rank not in culprits]
        job.wait_until(lambda _: all(job.of(rank, "failed") or job.of(rank, "error") for rank in others), patience + 30)
        expected = " ".join(f"{rank}={how}" for rank in sorted(culprits))
        for rank in others:
            event = job.of(rank, "failed")
            self.assertIsNotNone(event, f"rank {rank}: {job.events()[job.pids[rank]]}\n{job.said()}")
            self.assertEqual(event[2], expected, f"rank {rank}")
            self.assertIsNone(job.of(rank, "wrong"))
        return max(job.of(rank, "failed")[1] for rank in others) - since


class Failures(Jobs):
    def test_failures_at_random_points_are_named_by_all_in_time(self):
        dice = random.Random(SEED)
        count = 50 if EVERYTHING else 1
        if not EVERYTHING:
            print(f"left out: {4 * (50 - count)} of 200 failures over {TRANSPORT}")
        for kind, (do, how) in KINDS.items():
            took, finalized = [], 0
            for n in range(count):
                job = Job(RANKS, dice.randrange(1 << 30))
                try:
                    job.wait_until_ready()
                    time.sleep(dice.uniform(0, 0.3))
                    victim = dice.randrange(RANKS)
                    with self.subTest(kind=kind, n=n, victim=victim):
                        since = time.monotonic()
                        do(job.pids[victim])
                        took.append(self.expect_verdict(job, {victim}, how, since, FAILURE_TIMEOUT))
                        self.assertLess(took[-1], FAILURE_TIMEOUT + 1 + 5)  # the rest is for a loaded machine
                        others = [rank for rank in range(RANKS) if rank != victim]
                        self.assertTrue(job.wait_until(lambda _: all(job.of(r, "destroyed") for r in others), 20))
                        if MPIRUN and how == "died":
                            finalized += job.wait_until(lambda _: all(job.of(r, "finalized") for r in others), 3)
                finally:
                    job.end()
            print(f"{TRANSPORT}, {kind}: {len(took)} of {count} named by all{after(took)}"
                  + (f"; MPI_Finalize returned in {finalized}" if MPIRUN and how == "died" else ""), flush=True)

    def test_the_others_go_on_by_shrink_until_fewer_than_half_are_left(self):
        job = self.job(5, 5, "shrink")
        job.wait_until_ready()
        dice, left, took = random.Random(SEED), set(job.pids.values()), []
        for kind in ("killed", "stopped"):
            time.sleep(0.2)
            victim = dice.choice(sorted(left))
            left.remove(victim)
            KINDS[kind][0](victim)

            def go_on(events, size=len(left)):
                return all(any(name == "ready" and words.endswith(f" {size}") for name, _, words in events[pid])
                           for pid in left)
            self.assertTrue(job.wait_until(go_on), f"{kind}: {job.events()}\n{job.said()}")
            ends = [[at for name, at, _ in job.events()[pid] if name in ("failed", "ready")][-2:] for pid in left]
            took.append(max(end for _, end in ends) - min(begin for begin, _ in ends))
        self.assertFalse([event for pid in left for event in job.events()[pid] if event[0] in ("wrong", "error")])
        print(f"{TRANSPORT}: from the error to the first right result of {', '.join(map(str, (4, 3)))} ranks "
              f"{', '.join(f'{t:.3f}' for t in took)} s", flush=True)

    @once
    def test_who_computes_is_not_given_up(self):
        job = self.job(RANKS, 1, "compute", str(3 * FAILURE_TIMEOUT))
        job.wait_until_ready()
        time.sleep(FAILURE_TIMEOUT)
        for rank in range(RANKS):
            self.assertIsNone(job.of(rank, "failed"), job.events())
            self.assertIsNone(job.of(rank, "error"), job.events())

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

    @once
    def test_with_0_the_deadline_alone_counts(self):
        job = self.job(RANKS, 4, TERRACE_FAILURE_TIMEOUT="0", TERRACE_TIMEOUT="2")
        job.wait_until_ready()
        os.kill(job.pids[1], signal.SIGSTOP)
        self.assertTrue(job.wait_until(lambda _: all(job.of(rank, "error") for rank in (0, 2, 3)), 30), job.events())
        # Who gives up first leaves, and over UCX the others may see that before their own deadline.
        self.assertTrue(any("timed out after 2 s" in job.of(rank, "error")[2] for rank in (0, 2, 3)), job.events())

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
            if kept:  # not of those that are to end
                self.assertEqual(kept[0], kept[1], "descriptors, threads, mappings of shared memory")
                print(f"{cycles} communicators that failed: {kept[1]} descriptors, threads, mappings, as after 5")


class CutLinks(Jobs):
    """Three nodes of two ranks, one of which is cut off."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("emulated nodes take root")
        up = subprocess.run([VCLUSTER, "up", str(ROOT / "tests/failures/three-by-two.yaml")], text=True, capture_output=True)
        if up.returncode != 0:
            raise unittest.SkipTest(f"no emulated nodes here: {up.stderr}")
        cls.addClassCleanup(lambda: subprocess.run([VCLUSTER, "down"], capture_output=True))

    def link(self, *words):
        subprocess.run([VCLUSTER, "link", *words], check=True, capture_output=True)

    def test_all_name_the_node_that_is_cut_off_and_go_on_without_it(self):
        dice = random.Random(SEED)
        ways = [("down",), ("down", "--outgoing")]
        count = 25 if EVERYTHING else 1
        for way in ways:
            took = []
            for n in range(count):
                job = Job(6, dice.randrange(1 << 30), "shrink", hosts=["n0", "n0", "n1", "n1", "n2", "n2"])
                try:
                    job.wait_until_ready()
                    time.sleep(dice.uniform(0, 0.3))
                    node = dice.randrange(1 if MPIRUN else 0, 3)  # mpirun is on the first one
                    with self.subTest(way=way, n=n, node=node):
                        since = time.monotonic()
                        self.link(f"n{node}", *way)
                        took.append(self.expect_verdict(job, {2 * node, 2 * node + 1}, "unreachable", since,
                                                        FAILURE_TIMEOUT))
                        self.assertTrue(job.wait_until(lambda _: all(job.of(2 * node + r, "partitioned") for r in (0, 1))),
                                        job.events())
                        others = [job.pids[rank] for rank in range(6) if rank // 2 != node]
                        self.assertTrue(job.wait_until(lambda events: all(
                            any(event[0] == "ready" and event[2].endswith(" 4") for event in events[pid])
                            for pid in others)), job.events())
                finally:
                    self.link(f"n{node}", "up")
                    job.end()
            print(f"{TRANSPORT}, link {' '.join(way)}: {len(took)} of {count} named by all{after(took)}", flush=True)

    def test_a_rank_of_another_node_that_is_alone_there_is_named_when_it_dies(self):
        job = self.job(3, 7, hosts=["n0", "n1", "n2"]) if not MPIRUN else self.job(6, 7, hosts=["n0"])
        job.wait_until_ready()
        since = time.monotonic()
        os.kill(job.pids[1], signal.SIGKILL)
        took = self.expect_verdict(job, {1}, "died", since, FAILURE_TIMEOUT)
        print(f"{TRANSPORT}, killed on another node: named after {took:.3f} s", flush=True)


if __name__ == "__main__":
    unittest.main()

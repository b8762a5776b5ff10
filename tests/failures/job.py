"""Jobs of ranks that make collectives until they are killed, and their events. Used by the tests in this folder.

Their command lines are CASES SURVIVOR [MPIRUN ...]: the tests run over UCX, or over MPI if mpirun is given. CASES is
a class of tests, or one test, as Failures.test_killed. MPIRUN gets `--enable-recovery`, or the words of
TERRACE_TEST_RECOVERY instead, as `--with-ft ulfm` for Open MPI 5.
"""
import os
import pathlib
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
SEED = int(os.environ.get("TERRACE_TEST_SEED", "25"))
EVERYTHING = "TERRACE_TEST_ALL" in os.environ
RECOVERY = os.environ.get("TERRACE_TEST_RECOVERY", "--enable-recovery").split()
FAILURE_TIMEOUT = 2.0 if EVERYTHING else 1.0
ROOT = pathlib.Path(__file__).resolve().parents[2]
VCLUSTER = str(ROOT / "tools/vcluster")
# Skips over MPI tests of behaviour that does not depend on the transport.
once = unittest.skipIf(MPIRUN and not EVERYTHING, "over UCX, and over MPI with TERRACE_TEST_ALL=1")


def exhaust_memory(pid):
    resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))


# Kinds of failures: the function that makes a process fail, and how the others report it.
KINDS = {
    "killed": (lambda pid: os.kill(pid, signal.SIGKILL), "died"),
    "exits": (lambda pid: os.kill(pid, signal.SIGUSR1), "died"),
    "out of memory": (exhaust_memory, "died"),
    "stopped": (lambda pid: os.kill(pid, signal.SIGSTOP), "stopped"),
}


def ends(pid, patience=10.0):
    """Returns whether a process ends in time."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def looks_for_memory_for_ever(kind, pid):
    """Returns whether a rank without memory hangs, as in Open MPI 4.1's MPI_Isend: such a rank has not failed."""
    return bool(MPIRUN) and kind == "out of memory" and not ends(pid)


class Job:
    """Processes that make collectives until they are killed, and their events."""

    def __init__(self, ranks, seed, *words, hosts=None, under=(), **variables):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        environment = {**os.environ, "TERRACE_FAILURE_TIMEOUT": str(FAILURE_TIMEOUT), "TERRACE_LOG": "off",
                       "UCX_LOG_LEVEL": "fatal", **variables}
        command = [SURVIVOR, TRANSPORT, str(self.directory), str(seed), *words]
        self.output = open(self.directory / "output", "w")
        if hosts and MPIRUN:
            commands = [([VCLUSTER, "run", *(f"--mpi-arg={word}" for word in RECOVERY), "--", *command], {})]
        elif hosts:
            commands = [([VCLUSTER, "exec", hosts[rank], "--", *command],
                         {"TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_RANK": str(rank),
                          "TERRACE_SIZE": str(ranks)}) for rank in range(ranks)]
        elif MPIRUN:
            commands = [([*MPIRUN, *RECOVERY, "-np", str(ranks), *command], {})]
        else:
            commands = [([*under, *command],
                         {"TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_RANK": str(rank),
                          "TERRACE_SIZE": str(ranks)}) for rank in range(ranks)]
        self.children = [subprocess.Popen(line, env={**environment, **more}, stdin=subprocess.DEVNULL,
                                          stdout=self.output, stderr=self.output) for line, more in commands]
        self.ranks = ranks
        self.pids = {}

    def events(self):
        """Returns the events (name, time, words) of each process, by pid."""
        found = {}
        for file in self.directory.glob("*.events"):
            lines = [line.split(" ", 2) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            found[int(file.stem)] = [(name, float(at), words.strip()) for name, at, words in lines]
        return found

    def wait_until(self, holds, patience=60.0):
        """Returns whether `holds(events)` becomes true in time."""
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
        """Returns a rank's first event of this name; None if it has none."""
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
            for end in (child.terminate, child.kill):  # mpirun may hang after all its ranks have ended
                try:
                    child.wait(timeout=0.3 if end == child.terminate else 6)
                except subprocess.TimeoutExpired:
                    end()
            child.wait()
        self.output.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def after(seconds):
    return f", after {statistics.median(seconds):.3f} s (median), {max(seconds):.3f} s at most" if seconds else ""


class Jobs(unittest.TestCase):
    def job(self, *arguments, **variables):
        job = Job(*arguments, **variables)
        self.addCleanup(job.end)
        return job

    def expect_verdict(self, job, culprits, how, since, patience):
        """Expects all other ranks to name the culprits in time. Returns the seconds until the last of them did."""
        others = [rank for rank in range(job.ranks) if rank not in culprits]
        job.wait_until(lambda _: all(job.of(rank, "failed") or job.of(rank, "error") for rank in others), patience + 30)
        expected = " ".join(f"{rank}={how}" for rank in sorted(culprits))
        for rank in others:
            event = job.of(rank, "failed")
            self.assertIsNotNone(event, f"rank {rank}: {job.events()[job.pids[rank]]}\n{job.said()}")
            self.assertEqual(event[2], expected, f"rank {rank} after {event[1] - since:.3f} s")
            self.assertIsNone(job.of(rank, "wrong"))
        return max(job.of(rank, "failed")[1] for rank in others) - since

    def expect_others_go_on(self, job, left):
        """Expects these processes to go on by shrink(). Returns the seconds from the error to the first result."""
        def go_on(events):
            return all(any(name == "ready" and words.endswith(f" {len(left)}") for name, _, words in events[pid])
                       for pid in left)
        self.assertTrue(job.wait_until(go_on), f"{job.events()}\n{job.said()}")
        ends = [[at for name, at, _ in job.events()[pid] if name in ("failed", "ready")][-2:] for pid in left]
        self.assertFalse([event for pid in left for event in job.events()[pid] if event[0] in ("wrong", "error")])
        return max(end for _, end in ends) - min(begin for begin, _ in ends)

#!/usr/bin/env python3
"""Processes that are killed while they create communicators leave nothing in /dev/shm and /tmp.

usage: leftovers_test.py SURVIVOR

Creates a mount namespace with an empty /dev/shm and /tmp, and runs there.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

SURVIVOR = str(pathlib.Path(sys.argv[1]).resolve())
EVERYTHING = "TERRACE_TEST_ALL" in os.environ
SEED = int(os.environ.get("TERRACE_TEST_SEED", "25"))
RANKS = 3
# Starts a rank as in a container that shares files but no processes, so all ranks have the same process number.
CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
OWN_FILES = 'mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /tmp && exec "$@"'


class Job:
    """Ranks that create communicators and windows until they are killed."""

    def __init__(self, folder, under=()):
        self.folder = folder
        self.children = []
        for rank in range(RANKS):
            own = folder / str(rank)
            own.mkdir(parents=True)
            environment = {**os.environ, "TERRACE_BOOTSTRAP": f"file:{folder}/meeting", "TERRACE_RANK": str(rank),
                           "TERRACE_SIZE": str(RANKS), "TERRACE_LOG": "info", "UCX_LOG_LEVEL": "fatal"}
            with open(own / "output", "w") as output:
                self.children.append(subprocess.Popen([*under, SURVIVOR, "ucx", str(own), "1", "parts"],
                                                      env=environment, stdout=output, stderr=output,
                                                      stdin=subprocess.DEVNULL))

    def said(self, name):
        return "".join(file.read_text() for file in sorted(self.folder.glob(f"*/{name}")))

    def is_ready(self):
        return self.said("*.events").count("ready") == RANKS

    def kill(self, order, between):
        for rank in order:
            self.children[rank].kill()
            time.sleep(between)
        for child in self.children:
            child.wait()


def wait_until(holds, patience=60.0):
    end = time.monotonic() + patience
    while not (done := holds()) and time.monotonic() < end:
        time.sleep(0.01)
    return done


class Leftovers(unittest.TestCase):
    def setUp(self):
        self.dice = random.Random(SEED)
        # Outside the two directories that the test checks.
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def expect_nothing(self, when):
        self.assertEqual(os.listdir("/dev/shm") + os.listdir("/tmp"), [], when)

    def job(self, number, under=()):
        job = Job(self.folder / str(number), under)
        self.addCleanup(lambda: job.kill(range(RANKS), 0))
        return job

    def kill_somewhen(self, number, under=()):
        """Kills the ranks at a random moment of the first second, one after another or together."""
        job = self.job(number, under)
        at = self.dice.random()
        time.sleep(at)
        job.kill(self.dice.sample(range(RANKS), RANKS), self.dice.choice([0, 0.001, 0.03]))
        return f"job {number}, killed after {at:.3f} s: {job.said('output')}"

    def test_killed_at_any_moment(self):
        for number in range(200 if EVERYTHING else 10):
            self.expect_nothing(self.kill_somewhen(number))

    def test_containers_with_equal_process_numbers(self):
        """Simultaneous jobs can share memory. A later job removes names that killed jobs have left."""
        for number in range(20 if EVERYTHING else 2):
            jobs = [self.job(f"{number}-{i}", CONTAINER) for i in range(2)]
            for job in jobs:
                self.assertTrue(wait_until(job.is_ready), job.said("output"))
                self.assertIn("transport shm in nodes", job.said("output"))
            time.sleep(self.dice.random())
            for job in jobs:
                job.kill(range(RANKS), 0)
                self.assertNotIn("wrong", job.said("*.events"))
                self.assertNotIn("cannot share", job.said("output"))
        for number in range(20 if EVERYTHING else 2):
            self.kill_somewhen(f"killed-{number}", CONTAINER)
        last = self.job("last", CONTAINER)
        self.assertTrue(wait_until(last.is_ready), last.said("output"))
        # While the job runs, a name exists there only for short times.
        self.assertTrue(wait_until(lambda: not os.listdir("/dev/shm"), 10), os.listdir("/dev/shm"))
        self.assertEqual(os.listdir("/tmp"), [])


if __name__ == "__main__":
    if "TERRACE_TEST_OWN_FILES" not in os.environ:
        under = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c",
                 OWN_FILES, "sh"]
        if subprocess.run([*under, "true"], capture_output=True).returncode != 0:
            print("left out: leftovers of killed processes: no namespace can be made here")
            sys.exit(0)
        os.environ["TERRACE_TEST_OWN_FILES"] = "1"
        os.execvp(under[0], [*under, sys.executable, *sys.argv])
    unittest.main(argv=sys.argv[:1] + os.environ.get("CASES", "").split())

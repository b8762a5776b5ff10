#!/usr/bin/env python3
"""An elastic job: members join, fail and leave while it trains.

usage: elastic_test.py MEMBER

With TERRACE_TEST_ALL=1 members fail and are replaced for TERRACE_TEST_SOAK seconds (600), else a few times.
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MEMBER = sys.argv.pop(1)
MOST = 8
EVERYTHING = "TERRACE_TEST_ALL" in os.environ
SOAK = float(os.environ.get("TERRACE_TEST_SOAK", "600" if EVERYTHING else "0"))
SEED = int(os.environ.get("TERRACE_TEST_SEED", "25"))


class Elastic(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.output = open(self.directory / "output", "w")
        self.running = {}  # by number
        self.all = []
        self.addCleanup(self.end)

    def end(self):
        for child in self.all:
            child.kill()
            child.wait()
        self.output.close()
        shutil.rmtree(self.directory)

    def start(self, number, *words):
        environment = {**os.environ, "TERRACE_BOOTSTRAP": f"file:{self.directory}/meeting", "TERRACE_RANK": str(number),
                       "TERRACE_SIZE": str(MOST), "TERRACE_FAILURE_TIMEOUT": "2", "TERRACE_LOG": "off",
                       "UCX_LOG_LEVEL": "fatal"}
        child = subprocess.Popen([MEMBER, str(self.directory), *words], env=environment, stdin=subprocess.DEVNULL,
                                 stdout=self.output, stderr=self.output)
        self.running[number] = child
        self.all.append(child)

    def events(self, child):
        file = self.directory / f"{child.pid}.events"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [tuple(line.strip().split(" ", 2)) for line in lines if line.endswith("\n")]

    def last_change(self, child):
        """Returns (SIZE, GENERATION, ITERATIONS, [DESCRIPTORS, THREADS, MAPPINGS]) after a member's last change."""
        words = [event[2].split() for event in self.events(child) if event[0] == "members"]
        return (int(words[-1][1]), int(words[-1][2]), int(words[-1][3]), words[-1][4:]) if words else None

    def expect_members(self, size, beyond=-1, patience=60):
        """Expects the running processes to become `size` members of one generation after `beyond`. Returns it."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            seen = [self.last_change(child) for child in self.running.values()]
            if all(seen) and all(s[0] == size and s[1] > beyond and s[:3] == seen[0][:3] for s in seen):
                return seen[0][1]
            time.sleep(0.02)
        self.fail(f"not {size} members: {[(n, self.events(c)[-3:]) for n, c in self.running.items()]}\n"
                  f"{(self.directory / 'output').read_text()}")

    def kill(self, number):
        child = self.running.pop(number)
        child.kill()
        child.wait()

    def expect_all_leave(self):
        for child in self.running.values():
            child.send_signal(signal.SIGUSR1)
        for child in self.running.values():
            self.assertEqual(child.wait(timeout=60), 0, self.events(child))
        self.expect_nothing_wrong()

    def expect_nothing_wrong(self):
        wrong = [event for child in self.all for event in self.events(child)
                 if event[0] in ("wrong", "error", "partitioned")]
        self.assertEqual(wrong, [])

    def timed(self, what, action):
        begin = time.monotonic()
        result = action()
        print(f"{what}: {time.monotonic() - begin:.2f} s", flush=True)
        return result

    def test_six_become_eight_then_five_then_eight_again_and_leave(self):
        for number in range(6):
            self.start(number, "begin", "6")
        generation = self.timed("6 begin", lambda: self.expect_members(6))
        for number in (6, 7):
            self.start(number, "join")
        generation = self.timed("6 -> 8", lambda: self.expect_members(8, generation))
        for number in (0, 3, 7):
            self.kill(number)
        generation = self.timed("8 -> 5", lambda: self.expect_members(5, generation))
        for number in (0, 3, 7):
            self.start(number, "join")
        generation = self.timed("5 -> 8", lambda: self.expect_members(8, generation))
        leaves = self.running.pop(4)
        leaves.send_signal(signal.SIGUSR1)
        self.assertEqual(leaves.wait(timeout=60), 0, self.events(leaves))
        self.timed("8 -> 7, one leaves", lambda: self.expect_members(7, generation))
        self.expect_all_leave()

    def test_who_asks_to_join_and_dies_holds_up_nobody(self):
        for number in range(3):
            self.start(number, "begin", "3")
        generation = self.expect_members(3)
        self.start(3, "join")
        self.kill(3)
        self.start(4, "join")
        self.expect_members(4, generation)
        self.expect_all_leave()

    def test_members_and_who_joins_fail_while_others_join(self):
        dice = random.Random(SEED)
        rounds = 30 if EVERYTHING else 3
        if not EVERYTHING:
            print(f"left out: {30 - rounds} of 30 failures while others join")
        for number in range(4):
            self.start(number, "begin", "4")
        self.expect_members(4)
        for n in range(rounds):
            with self.subTest(n=n):
                joiners = dice.sample([number for number in range(MOST) if number not in self.running], 2)
                for number in joiners:
                    self.start(number, "join")
                time.sleep(dice.uniform(0, 0.5))
                self.kill(dice.choice(list(self.running)))
                self.expect_members(5)
                self.kill(dice.choice(list(self.running)))
                self.expect_members(4)
                self.expect_nothing_wrong()
        self.expect_all_leave()

    def test_members_that_fail_are_replaced_for_a_long_time(self):
        dice = random.Random(SEED)
        for number in range(4):
            self.start(number, "begin", "4")
        generation = self.expect_members(4)
        if not EVERYTHING:
            print("left out: 600 s of members that fail and are replaced; 3 failures")
        begin, failures, kept = time.monotonic(), 0, []
        while failures < 3 or time.monotonic() - begin < SOAK:
            time.sleep(dice.uniform(0, 2) if SOAK else 0.1)
            victim = dice.choice([0, 2, 3])  # 1 is a member from beginning to end
            self.kill(victim)
            failures += 1
            self.start(victim, "join")
            generation = self.expect_members(4, generation)
            kept.append(self.last_change(self.running[1])[3])
            self.expect_nothing_wrong()
        settled = min(5, len(kept) - 1)
        self.assertEqual(kept[settled], kept[-1], f"descriptors, threads, mappings of shared memory: {kept}")
        print(f"{failures} failures in {time.monotonic() - begin:.0f} s, each member replaced; "
              f"{self.last_change(self.running[1])[2]} iterations; descriptors, threads, mappings "
              f"{' '.join(kept[-1])}, as after the first ones", flush=True)
        self.expect_all_leave()


if __name__ == "__main__":
    unittest.main()

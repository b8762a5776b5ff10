#!/usr/bin/env python3
"""SimGrid on the platforms that `terrace export --to simgrid` writes. Skipped if SimGrid is not installed.

usage: simgrid_test.py TERRACE PING.cpp
"""
import pathlib
import shutil
import subprocess
import sys
import unittest

TERRACE, PING = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
sys.dont_write_bytecode = True

from scratch import Scratch, uneven  # noqa: E402

# Messages share links fairly at their full rates; nothing else costs time, computing included.
SETTINGS = {"network/model": "CM02", "network/bandwidth-factor": "1", "network/latency-factor": "1",
            "network/weight-S": "0", "network/TCP-gamma": "0", "network/crosstraffic": "0", "network/optim": "Full",
            "smpi/simulate-computation": "no", "smpi/send-is-detached-thresh": "0", "smpi/wtime": "0",
            "smpi/display-timing": "no", "surf/precision": "1e-8"}

HEADER = 16  # of every message of SMPI [bytes]
# Racks of 2 and 3 nodes, of 2 ranks each.
MACHINE = uneven([[2, 2], [2, 2, 2]])
NICS = """\
terrace_topology: 1
name: nics
levels:
  - {name: node, size: 2, fabric: shm, bandwidth: 10 GB/s, latency: 500 ns}
  - {name: cluster, size: 2, fabric: ethernet, latency: 30 us, nics: {count: 2, bandwidth: [500 Mbit/s, 250 Mbit/s, 500 Mbit/s, 500 Mbit/s]}}
"""


class SimGrid(Scratch):
    CLUSTER = MACHINE

    def call(self, *command):
        done = subprocess.run(command, cwd=self.directory, text=True, timeout=280, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    # A message's time has the slowest link's rate, the latency of the level where the ranks meet, and nothing else.
    def test_messages_take_what_the_cluster_file_says(self):
        self.call("smpicxx", "-std=c++17", "-O0", PING, "-o", "ping")
        self.check_messages("cluster.yaml", 10, {
            (0, 1): (0.5e-6, 10e9), (1, 0): (0.5e-6, 10e9), (0, 2): (30e-6, 125e6), (9, 4): (30e-6, 125e6),
            (3, 4): (40e-6, 62.5e6), (9, 0): (40e-6, 62.5e6)})
        self.write("nics.yaml", NICS)  # rank 1's NIC is at half the rate of the others
        self.check_messages("nics.yaml", 4, {
            (0, 1): (0.5e-6, 10e9), (1, 0): (0.5e-6, 10e9), (0, 2): (30e-6, 62.5e6), (1, 3): (30e-6, 31.25e6),
            (3, 1): (30e-6, 31.25e6), (2, 0): (30e-6, 62.5e6)})

    def check_messages(self, cluster, ranks, pairs):
        self.call(TERRACE, "plan", cluster, "-o", "plan.yaml", "--force")
        self.call(TERRACE, "export", "plan.yaml", "--to", "simgrid", "-o", "platform.xml", "--force")
        self.write("hosts", "".join(f"rank{r}\n" for r in range(ranks)))
        said = self.call("smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts", "-no-privatize",
                         *(f"--cfg={key}:{value}" for key, value in SETTINGS.items()), "--log=root.thres:critical",
                         "./ping", "1000000", *(str(r) for pair in pairs for r in pair))
        rows = [line.split() for line in said.splitlines()]
        self.assertEqual([(int(r[0]), int(r[1])) for r in rows], list(pairs))
        for (latency, rate), row in zip(pairs.values(), rows):
            self.assertAlmostEqual(float(row[2]), latency + (1e6 + HEADER) / rate, delta=2e-8)


if __name__ == "__main__":
    missing = [tool for tool in ("smpicxx", "smpirun") if not shutil.which(tool)]
    if missing:
        print(f"skipped: SimGrid is not installed, {' and '.join(missing)} missing (tools/install-deps)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""terrace simulate: times, loads, traces.

usage: simulate_test.py TERRACE SOURCE_ROOT
"""
import json
import re
import shutil
import subprocess
import sys
import unittest

from command import CLUSTER, UNEVEN, Command


class Simulate(Command):
    def setUp(self):
        super().setUp()
        self.terrace("plan", "cluster.yaml")

    def test_shows_times_and_loads(self):
        text = self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M")
        for part in ["allreduce of 4 MiB over 8 ranks", "simulated", "closed form", "limit        33.55 ms",
                     "busy: most", "processors", "bottleneck: links into core, busy 99 %"]:
            self.assertIn(part, text)

    def test_prints_json(self):
        found = json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--json"))
        self.assertEqual((found["ranks"], found["collective"], found["bytes"]), (8, "allreduce", 4 << 20))
        self.assertAlmostEqual(found["limit_s"], 33.55e-3, 5)
        self.assertEqual(found["busiest_link"]["level"], "core")
        for key in ("simulated_s", "closed_form_s"):
            self.assertTrue(found["limit_s"] <= found[key] < 1.2 * found["limit_s"], found)
        ring = json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--json", "--algorithm",
                                       "flat-ring", "--trace", "t.json"))
        self.assertEqual(ring["shape"], "node+core:8 scatter ring")

    def test_simulates_reproducible_reductions(self):
        def time(*asked):
            return json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--algorithm", "flat-ring",
                                           "--json", *asked))["simulated_s"]
        self.assertNotEqual(time("--reproducible"), time())

    def test_needs_a_size(self):
        self.assertIn("not a size", self.terrace("simulate", "cluster.plan.yaml", "--bytes", "much", status=2))

    def test_runs_baselines_and_other_collectives(self):
        self.assertIn("node:4 scatter",
                      self.terrace("simulate", "cluster.plan.yaml", "--bytes", "1M", "--algorithm", "staged"))
        self.assertIn("node+core:8 scatter ring",
                      self.terrace("simulate", "cluster.plan.yaml", "--bytes", "1M", "--algorithm", "flat-ring"))
        for name in ["reduce_scatter", "allgather", "broadcast", "reduce"]:
            self.assertIn(name, self.terrace("simulate", "cluster.plan.yaml", "--bytes", "1M", "--collective", name))

    # Expects that slices of a track are nested or disjoint. Viewers draw partly overlapping slices wrong.
    def nests(self, spans):
        tracks = {}
        for e in spans:
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"]))
        self.assertGreater(len(tracks), 1)
        for slices in tracks.values():
            open_until = []
            for begin, length in sorted(slices):
                end = begin - length
                while open_until and open_until[-1] <= begin + 1e-6:
                    open_until.pop()
                self.assertTrue(not open_until or end <= open_until[-1] + 1e-6, slices)
                open_until.append(end)

    def test_traces_nest(self):
        self.write("uneven.yaml", UNEVEN)
        self.terrace("plan", "uneven.yaml", "-o", "uneven.plan.yaml")
        for collective in ["allreduce", "reduce_scatter", "broadcast"]:
            self.terrace("simulate", "uneven.plan.yaml", "--bytes", "4M", "--collective", collective,
                         "--trace", "t.json")
            self.nests([e for e in json.loads(self.read("t.json"))["traceEvents"] if e["ph"] == "X"])
            if shutil.which("trace_processor_shell"):  # Perfetto's own reader
                done = subprocess.run(["trace_processor_shell", "--query-string",
                                       "select count(*) from slice; select value from stats where severity = 'error' "
                                       "and value > 0", "t.json"], cwd=self.directory, text=True, capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_writes_a_trace(self):
        self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--trace", "t.json")
        events = json.loads(self.read("t.json"))["traceEvents"]
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["pid"] for e in spans}, set(range(1, 9)))
        self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans))
        self.nests(spans)
        loads = [e["args"]["percent"] for e in events if e["ph"] == "C"]
        self.assertTrue(loads and all(0 <= load <= 100 for load in loads))

    def refusal(self, *arguments):
        said = self.terrace("simulate", *arguments, status=2)
        self.assertRegex(said, "the programs of .* ranks would have about .* instructions")
        return said

    def test_refuses_what_is_too_long(self):
        self.write("big.yaml", CLUSTER.replace("size: 4", "size: 64").replace("size: 2", "size: 64"))
        self.terrace("plan", "big.yaml", "-o", "big.plan.yaml")
        self.assertIn("no message fits", self.refusal("big.plan.yaml", "--collective", "alltoall"))
        self.write("big.yaml", CLUSTER.replace("size: 4", "size: 8").replace("size: 2", "size: 16"))
        self.terrace("plan", "big.yaml", "-o", "big.plan.yaml")
        said = self.refusal("big.plan.yaml", "--algorithm", "central", "--bytes", "16G")
        size, unit = re.search(r"the largest power of two that fits is --bytes (\d+) ([KMG]i)B", said).groups()
        self.refusal("big.plan.yaml", "--algorithm", "central", "--bytes", f"{2 * int(size)}{unit}B")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

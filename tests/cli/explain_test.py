#!/usr/bin/env python3
"""terrace explain.

usage: explain_test.py TERRACE SOURCE_ROOT
"""
import sys
import unittest

from command import CLUSTER, Command


class Explain(Command):
    def test_ranks_candidates_and_names_the_bottleneck(self):
        self.terrace("plan", "cluster.yaml")
        text = self.terrace("explain", "cluster.plan.yaml", "--bytes", "32MiB")
        for part in ["32 MiB", "->", "flat-ring", "two-level", "central", "limit 268.4 ms",
                     "bottleneck: the links into core", "processor", "300 ns *"]:
            self.assertIn(part, text)

    def test_the_ring_of_many(self):
        """A large ring moves everything twice: 1.2 GB over links of 6 GB/s take 2 x 200 ms."""
        self.write("ring.yaml", """\
terrace_topology: 1
name: ring
levels: [{name: net, size: 10000, fabric: infiniband, bandwidth: 6 GB/s, latency: 0 us, overhead: 0 us}]
reduction: 1000000 GB/s
""")
        self.terrace("plan", "ring.yaml")
        text = self.terrace("explain", "ring.plan.yaml", "--bytes", "1200000000")
        self.assertIn("limit 400 ms (100 % of it)", text)
        self.assertRegex(text, r"\n +(->)? +\d+ +400 ms +100 % +\S.* flat-ring +net:10000 scatter ring\n")
        self.assertIn("bottleneck: the links into net", text)

    def test_takes_any_size(self):
        self.terrace("plan", "cluster.yaml")
        self.assertIn("64 MiB", self.terrace("explain", "cluster.plan.yaml"))
        for size in ["1", "8K", "1000000", "3GiB"]:
            self.terrace("explain", "cluster.plan.yaml", "--bytes", size)
        for size in ["0", "x", "-1", "1.5"]:
            self.assertIn("--bytes", self.terrace("explain", "cluster.plan.yaml", f"--bytes={size}", status=2))

    def test_explains_every_collective(self):
        self.terrace("plan", "cluster.yaml")
        for name, baseline, limit in [("reduce_scatter", "flat-ring", "134.2 ms"),
                                      ("allgather", "two-level", "134.2 ms"),
                                      ("broadcast", "flat-chain", "268.4 ms"), ("reduce", "central", "268.4 ms")]:
            text = self.terrace("explain", "cluster.plan.yaml", "--bytes", "32MiB", "--collective", name)
            for part in [f"cluster: {name} of 32 MiB", "->", baseline, f"limit {limit}"]:
                self.assertIn(part, text)
        self.assertIn("allgather", self.terrace("explain", "cluster.plan.yaml", "--collective", "allgathers", status=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

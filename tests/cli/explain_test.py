#!/usr/bin/env python3
"""terrace explain, and the pictures of explain and topo.

usage: explain_test.py TERRACE SOURCE_ROOT
"""
import sys
import unittest
import xml.etree.ElementTree

from command import CLUSTER, UNEVEN, Command

RAILS = """\
terrace_topology: 1
name: rails
levels:
  - {name: node, size: 2, fabric: shm}
  - {name: cluster, size: 3, fabric: ethernet, nics: {count: 2, bandwidth: 500 Mbit/s, rails: true, spine: 250 Mbit/s}}
"""


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


class Pictures(Command):
    def texts(self, svg):
        return [t.text for t in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]

    def test_topo_draws_domains_and_rates(self):
        self.write("uneven.yaml", UNEVEN)
        texts = self.texts(self.terrace("topo", "uneven.yaml", "--svg"))
        for part in ["uneven", "rack 1", "node 4", "0", "12", "core: 500 Mbit/s ethernet", "a message takes 30 us"]:
            self.assertIn(part, texts)

    def test_topo_draws_the_inside_of_a_node(self):
        texts = self.texts(self.terrace("topo", "package:2 core:3", "--svg"))
        for part in ["inside a node", "package 1", "core 5", "rank 5", "* assumed, not measured"]:
            self.assertIn(part, texts)

    def test_topo_draws_nics(self):
        self.write("nics.yaml", RAILS)
        texts = self.texts(self.terrace("topo", "nics.yaml", "--svg"))
        for part in ["2 NICs of 500 Mbit/s on rails", "spine 250 Mbit/s"]:
            self.assertIn(part, texts)

    def test_explain_draws_stages_and_loads(self):
        self.terrace("plan", "cluster.yaml")
        texts = self.texts(self.terrace("explain", "cluster.plan.yaml", "--bytes", "32M", "--svg"))
        for part in ["cluster: allreduce of 32 MiB", "domains of 4", "33.6 MB, 100 %"]:
            self.assertIn(part, texts)
        self.assertTrue(any(t.startswith("1. node ") for t in texts))

    def test_large_machines_are_drawn_in_part(self):
        self.write("big.yaml", CLUSTER.replace("size: 4", "size: 64").replace("size: 2", "size: 4096"))
        svg = self.terrace("topo", "big.yaml", "--svg")
        self.assertLess(len(svg), 50_000)
        texts = self.texts(svg)
        self.assertIn("node 4095", texts)
        self.assertTrue(any(t.endswith(" more") for t in texts))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""tools/vcluster: which cores a node's processes stay on. What it creates takes root, and is tried by hand.

usage: vcluster_test.py SOURCE_ROOT
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True

from scratch import load  # noqa: E402

vcluster = load(pathlib.Path(sys.argv.pop(1)).resolve() / "tools/vcluster")


class Cores(unittest.TestCase):
    def test_nodes_share_cores_where_there_are_too_few(self):
        self.assertEqual(vcluster.deal_cores([2] * 6, [0, 1]), [[0], [1]] * 3)
        self.assertEqual(vcluster.deal_cores([2, 2, 1, 3, 1], [4, 6]), [[4], [6], [4], [6], [4]])
        self.assertEqual(vcluster.deal_cores([8, 8], [5]), [[5], [5]])

    def test_a_node_has_cores_of_its_own_where_there_are_enough(self):
        self.assertEqual(vcluster.deal_cores([3], [0, 1]), [[0, 1]])
        self.assertEqual(vcluster.deal_cores([4, 2], range(6)), [[0, 1, 2, 3], [4, 5]])
        for ranks in ([1], [1, 5], [4, 2, 2], [3, 3, 1]):
            for count in range(len(ranks), 20):
                dealt = vcluster.deal_cores(ranks, range(count))
                self.assertEqual(sum(dealt, []), list(range(count)), (ranks, count))
                self.assertTrue(all(dealt), (ranks, count))

    def test_a_command_runs_on_its_nodes_cores(self):
        machine = {"name": "x", "nodes": [4, 2], "levels": [], "shape": []}
        for node in vcluster.layout(machine, "x.yaml")["nodes"]:
            self.assertEqual(vcluster.enter(node, ["true"])[:3], ["taskset", "-c", ",".join(map(str, node["cores"]))])
        self.assertEqual([vcluster.cores_text(c) for c in ([1], [0, 2])], ["core 1", "cores 0, 2"])


unittest.main()

#!/usr/bin/env python3
"""tools/vcluster: the layout of a virtual cluster. Creating one requires root, and is tested by hand.

usage: vcluster_test.py SOURCE_ROOT
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from scratch import load  # noqa: E402

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
vcluster = load(ROOT / "tools/vcluster")

import cluster_layout  # noqa: E402


class Cores(unittest.TestCase):
    def test_nodes_share_cores_where_there_are_too_few(self):
        self.assertEqual(cluster_layout.deal_cores([2] * 6, [0, 1]), [[0], [1]] * 3)
        self.assertEqual(cluster_layout.deal_cores([2, 2, 1, 3, 1], [4, 6]), [[4], [6], [4], [6], [4]])
        self.assertEqual(cluster_layout.deal_cores([8, 8], [5]), [[5], [5]])

    def test_a_node_has_cores_of_its_own_where_there_are_enough(self):
        self.assertEqual(cluster_layout.deal_cores([3], [0, 1]), [[0, 1]])
        self.assertEqual(cluster_layout.deal_cores([4, 2], range(6)), [[0, 1, 2, 3], [4, 5]])
        for ranks in ([1], [1, 5], [4, 2, 2], [3, 3, 1]):
            for count in range(len(ranks), 20):
                dealt = cluster_layout.deal_cores(ranks, range(count))
                self.assertEqual(sum(dealt, []), list(range(count)), (ranks, count))
                self.assertTrue(all(dealt), (ranks, count))

    def test_a_command_runs_on_its_nodes_cores(self):
        machine = {"name": "x", "nodes": [4, 2], "levels": [], "shape": []}
        for node in cluster_layout.layout(machine, "x.yaml")["nodes"]:
            self.assertEqual(vcluster.enter(node, ["true"])[:3], ["taskset", "-c", ",".join(map(str, node["cores"]))])
        self.assertEqual([cluster_layout.cores_text(c) for c in ([1], [0, 2])], ["core 1", "cores 0, 2"])


def machine_with_nics(of_rank, rates, racks=None, **more):
    """Returns nodes with NICs of these rates [Mbit/s], on one switch or in racks of these numbers of nodes."""
    of_nics = {"rates_bytes_per_s": [[1e6 / 8 * rate for rate in node] for node in rates], "of_rank": of_rank, **more}
    ranks = [len(node) for node in of_rank]
    levels = [{"name": "node", "node_level": True, "fabric": "shm", "bandwidth_bytes_per_s": 1e10, "latency_s": 5e-7},
              {"name": "rack", "node_level": False, "fabric": "ethernet", "latency_s": 3e-5,
               "bandwidth_bytes_per_s": max(sum(node) for node in rates) * 1e6 / 8, "nics": of_nics}]
    shape = [ranks, racks or [len(ranks)]]
    if racks:
        levels.append({"name": "core", "node_level": False, "fabric": "ethernet", "latency_s": 4e-5,
                       "bandwidth_bytes_per_s": 5e7})
        shape.append([len(racks)])
    return {"name": "x", "nodes": ranks, "levels": levels, "shape": shape}


def ways_up(state):
    """Returns for each link the bridge above it and its rate [Mbit/s], keyed by (name, device) of its lower end."""
    return {(link["name"], link["device"]): (link["bridge"], link["bits"] // 10**6) for link in state["links"]}


class Links(unittest.TestCase):
    def test_a_shaper_has_the_links_rate_and_buckets(self):
        shaper = ("qdisc replace dev eth0 root handle 1: tbf rate 100000000bit burst 16384 "
                  "peakrate 110000000bit mtu 2048 limit 4194304")
        self.assertEqual(vcluster.switch_shaper("eth0", 100_000_000), [shaper])
        self.assertEqual(vcluster.host_shaper("eth0", 100_000_000)[0], shaper)

    def test_the_fastest_link_counts(self):
        self.assertEqual(cluster_layout.fastest_link({"levels": []}), 0)
        self.assertEqual(cluster_layout.fastest_link(machine_with_nics([[0]] * 2, [[80]] * 2, racks=[1, 1])), 4e8)


class Launchers(unittest.TestCase):
    def line(self, nodes, **more):
        machine = {"name": "x", "nodes": nodes, "levels": [], "shape": []}
        args = argparse.Namespace(np=None, mpi_arg=[], command=["./program"], **more)
        state = {**cluster_layout.layout(machine, "x.yaml"), "interface": "eth0"}
        return " ".join(vcluster.mpich_line(args, state, sum(nodes)))

    @unittest.skipUnless(shutil.which("mpirun.mpich"), "needs MPICH")
    def test_mpich_is_told_the_nodes_and_kept_from_their_memory(self):
        line = self.line([4, 2])
        self.assertIn(" -launcher rsh ", line)
        self.assertTrue(line.endswith(" -hosts n0:4,n1:2 -np 6 ./program"), line)
        self.assertIn("UCX_TLS=tcp,self ", line)


class Nics(unittest.TestCase):
    def test_a_node_without_nics_has_one_interface(self):
        machine = machine_with_nics([[0, 0], [0, 0]], [[1000], [500]])
        del machine["levels"][1]["nics"]
        machine["levels"][1]["bandwidths_bytes_per_s"] = [125e6, 62.5e6]
        state = cluster_layout.layout(machine, "x.yaml")
        self.assertEqual(ways_up(state), {("n0", "eth0"): ("b1-0", 1000), ("n1", "eth0"): ("b1-0", 500)})
        self.assertEqual([node["addresses"] for node in state["nodes"]], [["10.77.0.1"], ["10.77.0.2"]])

    def test_nics_of_all_nodes_are_on_one_switch(self):
        state = cluster_layout.layout(machine_with_nics([[0, 1], [0, 0]], [[250, 125], [250]]), "x.yaml")
        self.assertEqual(ways_up(state), {("n0", "eth0"): ("b1-0", 250), ("n0", "eth1"): ("b1-0", 125),
                                          ("n1", "eth0"): ("b1-0", 250)})
        self.assertEqual([node["addresses"] for node in state["nodes"]], [["10.77.0.1", "10.78.0.1"], ["10.77.0.2"]])
        self.assertEqual([node["nic_of_rank"] for node in state["nodes"]], [[0, 1], [0, 0]])

    def test_rails_have_switches_and_a_spine(self):
        machine = machine_with_nics([[0, 1], [0, 0]], [[250, 125], [250]], rails=True, spine_bytes_per_s=1e7)
        state = cluster_layout.layout(machine, "x.yaml")
        self.assertEqual(ways_up(state), {("r1-0-0", "s1-0-0"): ("b1-0", 80), ("r1-0-1", "s1-0-1"): ("b1-0", 80),
                                          ("n0", "eth0"): ("r1-0-0", 250), ("n0", "eth1"): ("r1-0-1", 125),
                                          ("n1", "eth0"): ("r1-0-0", 250)})
        self.assertEqual(sorted(state["bridges"]), ["b1-0", "r1-0-0", "r1-0-1"])

    def test_a_spine_without_a_rate_stops_nothing(self):
        machine = machine_with_nics([[0, 1]] * 3, [[250, 125]] * 3, rails=True)
        ways = ways_up(cluster_layout.layout(machine, "x.yaml"))
        self.assertEqual([ways["r1-0-0", "s1-0-0"], ways["r1-0-1", "s1-0-1"]], [("b1-0", 750), ("b1-0", 375)])

    def test_each_rack_has_its_rails(self):
        machine = machine_with_nics([[0, 1]] * 3, [[100, 100]] * 3, racks=[2, 1], rails=True)
        ways = ways_up(cluster_layout.layout(machine, "x.yaml"))
        self.assertEqual([ways["n1", "eth1"], ways["n2", "eth1"]], [("r1-0-1", 100), ("r1-1-1", 100)])
        self.assertEqual([ways["b1-0", "up1-0"], ways["b1-1", "up1-1"]], [("b2-0", 400), ("b2-0", 400)])

    def test_names_of_devices_are_short_enough(self):
        machine = machine_with_nics([[*range(8)]] * 300, [[100] * 8] * 300, rails=True)
        state = cluster_layout.layout(machine, "x.yaml")
        names = [*state["bridges"], *(link[end] for link in state["links"] for end in ("device", "port"))]
        self.assertLessEqual(max(map(len, names)), 15)
        addresses = [address for node in state["nodes"] for address in node["addresses"]]
        self.assertEqual(len(set(addresses)), 8 * 300)

    def test_each_rank_gets_its_nic(self):
        script = cluster_layout.nic_script(
            cluster_layout.layout(machine_with_nics([[0, 0, 1, 1], [0, 1]], [[100, 100]] * 2), "x")["nodes"])
        found = {}
        for node, rank in (("n0", 0), ("n0", 1), ("n0", 3), ("n1", 1)):
            path = {"PATH": f"{self.hostname(node)}:{os.environ['PATH']}", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank)}
            program = ["sh", "-c", "echo $OMPI_MCA_btl_tcp_if_include $0", "word"]
            done = subprocess.run(["sh", "-c", script, "nic", *program], env=path, text=True, capture_output=True)
            found[node, rank] = done.stdout
        self.assertEqual(found, {("n0", 0): "eth0 word\n", ("n0", 1): "eth0 word\n", ("n0", 3): "eth1 word\n",
                                 ("n1", 1): "eth1 word\n"})

    def test_a_rank_that_the_cluster_has_not_is_refused(self):
        script = cluster_layout.nic_script(cluster_layout.layout(machine_with_nics([[0]], [[100]]), "x")["nodes"])
        path = {"PATH": f"{self.hostname('n0')}:{os.environ['PATH']}", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
        done = subprocess.run(["sh", "-c", script, "nic", "true"], env=path, text=True, capture_output=True)
        self.assertEqual((done.returncode, "n0/1" in done.stderr), (1, True))

    def hostname(self, name):
        """Returns a directory with a program `hostname` that prints this name."""
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        directory = pathlib.Path(made.name)
        (directory / "hostname").write_text(f"#!/bin/sh\necho {name}\n")
        (directory / "hostname").chmod(0o755)
        return directory

    def test_a_scaled_cluster_has_all_rates_scaled_and_nothing_else(self):
        text = cluster_layout.scaled(
            "name: x\n  - {name: rack, size: 3, bandwidth: [100 Mbit/s, 2.5 GB/s], latency: 30 us, "
            "nics: {count: 2, bandwidth: 25 Mbit/s, spine: 40 kB/s}}\n", 0.1)
        self.assertEqual(
            text, 'name: "x-x0.1"\n  - {name: rack, size: 3, bandwidth: [10 Mbit/s, 0.25 GB/s], latency: 30 us, '
                  "nics: {count: 2, bandwidth: 2.5 Mbit/s, spine: 4 kB/s}}\n")

    def test_nodes_slower_than_their_nics_are_named(self):
        machine = machine_with_nics([[0, 1]] * 2, [[250, 250], [100, 100]])
        self.assertEqual(cluster_layout.capped_nodes(machine), [])
        machine["levels"][1]["bandwidth_bytes_per_s"] = 40e6
        self.assertEqual(cluster_layout.capped_nodes(machine), [0])


unittest.main()

#!/usr/bin/env python3
"""terrace topo and detect: they read, show and write descriptions of machines.

usage: topo_test.py TERRACE SOURCE_ROOT
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

from command import ROOT, TERRACE, Command
from scratch import cluster


class Topo(Command):
    SAMPLES = ROOT / "tests" / "readers" / "samples"

    def test_yaml_reads_back(self):
        for machine in [["cluster.yaml"], [self.SAMPLES / "xgmi.xml"], [self.SAMPLES / "topology.conf"],
                        [self.SAMPLES / "nvswitch.xml", "--slurm", self.SAMPLES / "topology.conf",
                         "--hosts", "n[001-006]"],
                        ["package:2 core:4"]]:
            text = self.terrace("topo", *machine, "--yaml")
            self.write("again.yaml", text)
            self.assertEqual(self.terrace("topo", "again.yaml", "--yaml"), text)

    def test_plans_for_a_job(self):
        machine = [self.SAMPLES / "cloud.xml", "--network", self.SAMPLES / "topology.conf"]
        self.write("hosts", "n001\nn004\n# the other row\nlogin slots=2\n")
        self.assertIn("8 ranks (1-2 x 1-2 x 1-2 x 2)", self.terrace("plan", *machine, "--hosts", "hosts"))
        text = self.read("cloud.plan.yaml")
        self.assertIn('hosts: "n[001,004],login"', text)
        self.terrace("verify", "cloud.plan.yaml")
        self.assertIn("n9999", self.terrace("plan", *machine, "--hosts", "n9999", status=2))
        self.terrace("plan", *machine, "--hosts", "hosts", "--slurm-job", status=2)
        self.assertIn('nor is there a file "missing.txt"',
                      self.terrace("plan", *machine, "--hosts", "missing.txt", status=2))

    # An empty host list, as from an unset variable, is an error: it does not mean the whole machine.
    def test_a_job_without_hosts_is_refused(self):
        self.write("named.yaml", cluster("named", 2, 2).replace("name: node,", 'name: node, hosts: "n[0-1]",'))
        self.terrace("topo", "named.yaml", "--hosts", "n1")
        for job in [["--hosts", ""], ["--slurm-job"]]:
            self.assertIn('host list ""', self.terrace("topo", "named.yaml", *job, status=2,
                                                       environment={"SLURM_JOB_NODELIST": ""}))

    def test_a_node_by_nccl_in_a_cluster_file(self):
        shutil.copy(self.SAMPLES / "cloud.xml", self.directory / "node.xml")
        self.write("c.yaml", "terrace_topology: 1\nname: cloud\nnode: {nccl: node.xml, nvlink: 300 GB/s}\n"
                   "levels:\n- {name: pod, size: 2, fabric: infiniband, hosts: \"n[1-2]\"}\n")
        self.assertIn("node   nvlink      300 GB/s", self.terrace("topo", "c.yaml"))

    def test_hostile_files_are_errors(self):
        for file in sorted((ROOT / "topologies" / "hostile").iterdir()):
            for libxml in ["0", "1"]:
                done = subprocess.run([TERRACE, "topo", file], env={**os.environ, "HWLOC_LIBXML": libxml}, text=True,
                                      capture_output=True, timeout=120)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(str(file), done.stderr)

    def test_hwlocs_reason_is_passed_on(self):
        self.write("node.xml", '<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x1" '
                   'complete_cpuset="0x1"/></topology>')
        self.assertRegex(self.terrace("topo", "node.xml", status=2), r"^node\.xml: hwloc refuses it: .*\(.*nodeset\)")

    def test_detect(self):
        text = self.terrace("detect")
        self.write("here.yaml", text)
        self.terrace("plan", "here.yaml", "-o", "p.yaml")
        self.assertIn("cluster file: c.yaml", self.terrace("detect", "-o", "c.yaml", "--node-file", "node.xml"))
        self.assertIn("node: {hwloc: node.xml}", self.read("c.yaml"))
        levels = lambda file: json.loads(self.terrace("topo", file, "--json"))["levels"]
        self.assertEqual(levels("c.yaml"), levels("here.yaml"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

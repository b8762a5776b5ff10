#!/usr/bin/env python3
"""terrace plan, verify and diff: their output, and the inputs that they refuse.

usage: plan_test.py TERRACE SOURCE_ROOT
"""
import os
import re
import subprocess
import sys
import unittest

from command import CLUSTER, ONE_RANK, ROOT, TERRACE, UNEVEN, Command


class Plan(Command):
    def test_reads_standard_input(self):
        done = subprocess.run([TERRACE, "plan", "-", "-o", "-"], input=self.CLUSTER, cwd=self.directory, text=True,
                              capture_output=True, timeout=120)
        self.terrace("plan", "cluster.yaml")
        self.assertEqual((done.returncode, done.stdout), (0, self.read("cluster.plan.yaml")))
        done = subprocess.run([TERRACE, "plan", "-"], input=self.CLUSTER.replace("fabric", "fabirc"),
                              cwd=self.directory, text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r'^standard input:\d+:\d+: unknown key "fabirc"; did you mean fabric\?')

    def test_wire_types(self):
        level = re.findall(r"name: (\w+)", self.CLUSTER)[-1]
        text = self.terrace("plan", "cluster.yaml", "--wire", f"{level}=int8")
        self.assertIn("scatter direct wire int8", text)
        self.assertIn("wire: int8", self.read("cluster.plan.yaml"))
        self.assertIn("proved", self.terrace("verify", "cluster.plan.yaml"))
        self.terrace("plan", "cluster.yaml", "--wire", f"{level}=auto")
        self.assertIn("wire: auto", self.read("cluster.plan.yaml"))
        self.terrace("verify", "cluster.plan.yaml")
        for wrong, why in [("nowhere=int8", "there is no level"), (f"{level}=int4", "the wire types are bfloat16"),
                           (level, "write LEVEL=TYPE")]:
            self.assertIn(why, self.terrace("plan", "cluster.yaml", "--wire", wrong, status=2))

    def test_units_of_link_speed(self):
        conf = "SwitchName=a Nodes=n[0-3] LinkSpeed=800\nSwitchName=b Nodes=n[4-7] LinkSpeed=800\n"
        self.write("topology.conf", conf + "SwitchName=s Switches=a,b LinkSpeed=3200\n")
        text = self.terrace("plan", "topology.conf")
        self.assertRegex(text, r"spine +infiniband +400 GB/s \*")
        self.assertIn("* assumed: the file does not say it, or not its unit;", text)
        self.assertIn("note: LinkSpeed has no unit in Slurm; the whole file is read in Gbit/s", text)
        self.assertIn("note: every node is one rank", text)
        text = self.terrace("plan", "topology.conf", "--link-unit", "mbit")
        self.assertRegex(text, r"spine +infiniband +400 MB/s ")
        self.assertNotIn("has no unit", text)
        self.write("topology.conf", conf + "SwitchName=s Switches=a,b LinkSpeed=400\n")
        self.assertIn('links into level "spine" (50 GB/s) are slower than those into level "leaf" below it (100 GB/s)',
                      self.terrace("plan", "topology.conf"))

    def test_links_between_gpus(self):
        gpu = '<pci busid="%s" class="0x030200" link_speed="16 GT/s" link_width="16"/>'
        self.write("gpus.xml", '<system version="1"><cpu numaid="0">' + gpu % "a" + gpu % "b" + "</cpu></system>")
        self.assertIn("warning: the file says nothing of NVLink", self.terrace("plan", "gpus.xml"))
        text = self.terrace("plan", "gpus.xml", "--gpu-fabric", "nvlink:300GB/s")
        self.assertRegex(text, r"nvlink +300 GB/s ")
        self.assertNotIn("warning", text)
        self.assertIn("--gpu-fabric: \"nvlink\" is none of nvlink:RATE",
                      self.terrace("plan", "gpus.xml", "--gpu-fabric", "nvlink", status=2))
        self.assertIn("--gpu-fabric is for the description of one node",
                      self.terrace("plan", "cluster.yaml", "--gpu-fabric", "none", status=2))

    def test_names_for_fabrics_and_rates(self):
        for fabric, bandwidth in [("RoCE", "1 Gbps"), ("Ethernet", "1 Gbit/s"), ("eth", "125 MB/s")]:
            text = self.CLUSTER.replace("ethernet", fabric).replace("1 Gbit/s", bandwidth)
            self.write("other.yaml", text)
            self.terrace("plan", "other.yaml", "-o", "other.plan.yaml")
            self.terrace("plan", "cluster.yaml")
            self.assertEqual(self.read("other.plan.yaml"), self.read("cluster.plan.yaml"))
        self.write("other.yaml", self.CLUSTER.replace("ethernet", "ethernt"))
        self.assertIn('unknown fabric "ethernt"; did you mean ethernet?', self.terrace("plan", "other.yaml", status=2))

    def test_a_host_list_without_quotes_is_named(self):
        self.write("other.yaml", re.sub(r"\}(?=\n*$)", ", hosts: node[01-02]}", self.CLUSTER.rstrip() + "\n"))
        self.assertIn('a list of hosts must stand in quotes here, as in hosts: "node[01-32]"',
                      self.terrace("plan", "other.yaml", status=2))

    def test_writes_where_it_says(self):
        self.assertIn("plan: cluster.plan.yaml", self.terrace("plan", "cluster.yaml"))
        self.assertIn("plan: other.yaml", self.terrace("plan", "cluster.yaml", "-o", "other.yaml"))
        self.assertEqual(self.read("other.yaml"), self.read("cluster.plan.yaml"))
        self.assertEqual(self.terrace("plan", "cluster.yaml", "-o", "-"), self.read("other.yaml"))
        left = {p.name for p in self.directory.iterdir()}
        self.assertEqual(left, {"cluster.yaml", "cluster.plan.yaml", "other.yaml"})

    def test_summary_says_what_matters(self):
        text = self.terrace("plan", "cluster.yaml")
        for part in ["8 ranks (4 x 2)", "predicted", "limit", "flat ring", "two-level", "scatter", "300 ns *",
                     "assumed", "reduce_scatter", "allgather", "broadcast", "reduce ", "verified: all rules"]:
            self.assertIn(part, text)

    def test_learns_from_profiles_and_says_what(self):
        self.terrace("plan", "cluster.yaml")
        self.write_profile({8: "12 us", 33554432: "562 ms"})
        text = self.terrace("plan", "cluster.yaml", "--profile", "profiles", "-o", "new.plan.yaml")
        self.assertRegex(text, r"(?m)^profile: sizes used: 2; calls took 0\.\d+ to [12]\.\d+ times as long as ")
        self.assertRegex(text, r"(?m)^  bandwidth of \w+ +\S+ Gbit/s +-> \S+ MB/s +0\.[45]\d* times$")
        self.assertRegex(text, r"(?m)^  latency of \w+ .* 0\.[1-9]\d* times$")
        self.assertIn("profile: left, since less than a quarter of each call's time depends on them:\n", text)
        self.assertIn("rate of reductions\n", text)

    def test_a_plan_names_the_assumption_that_matters_most(self):
        planned = self.terrace("plan", "package:2 core:4")
        first = re.search(r"^assumed, and decisive: (.*), .*; with (.*) allreduce, ", planned,
                          re.MULTILINE)
        rows = self.terrace("plan", "package:2 core:4", "--sensitivity").partition("sensitivity: ")[2].splitlines()[2:]
        self.assertRegex(rows[0], rf"^  {first[1]} .* {re.escape(first[2])} ")

    def test_a_failure_leaves_the_old_plan(self):
        self.terrace("plan", "cluster.yaml", "-o", "old.yaml")
        old = self.read("old.yaml")
        self.write("broken.yaml", CLUSTER.replace("size: 2", "size: two"))
        self.assertRegex(self.terrace("plan", "broken.yaml", "-o", "old.yaml", status=2), r"^broken\.yaml:5:\d+: ")
        self.assertEqual(self.read("old.yaml"), old)

    # The cluster file is just within the limits; its plan is longer, and exceeds them.
    def test_what_could_not_be_read_is_not_written(self):
        self.write("large.yaml", f"terrace_topology: 1\nname: \"{'!' * 499_975}\"\n"
                   "levels: [{name: node, size: 2, fabric: shm}]\n")
        self.terrace("topo", "large.yaml")
        self.assertRegex(self.terrace("plan", "large.yaml", "-o", "large.plan.yaml", status=2),
                         r"^large\.yaml: the plan is not written.*more than")
        self.assertFalse((self.directory / "large.plan.yaml").exists())

    def test_a_pipe_is_refused_and_not_waited_for(self):
        os.mkfifo(self.directory / "pipe")
        for command in ["plan", "explain", "verify", "topo"]:
            self.assertRegex(self.terrace(command, "pipe", status=2), "^pipe: is no regular file")

    def test_a_node_file_that_is_not_there_is_named_where_it_is_asked_for(self):
        self.write("c.yaml", "terrace_topology: 1\nname: x\nnode: {hwloc: none.xml, ranks: gpus}\n")
        self.assertRegex(self.terrace("plan", "c.yaml", status=2), r"^c\.yaml:3:15: none\.xml: cannot be opened")

    def test_bad_input_exits_2_and_says_where(self):
        self.assertRegex(self.terrace("plan", "missing.yaml", status=2), r"^missing\.yaml: ")
        self.write("bad.yaml", CLUSTER.replace("ethernet", "ether"))
        self.assertRegex(self.terrace("plan", "bad.yaml", status=2), r"^bad\.yaml:5:\d+: .*ether")
        self.terrace("plan", "cluster.yaml", "-o", "no/such/directory", status=2)

    def test_uneven_and_single(self):
        for name, text in [("uneven", UNEVEN), ("one", ONE_RANK)]:
            self.write("c.yaml", text)
            self.terrace("plan", "c.yaml")
            self.terrace("verify", f"{name}.plan.yaml")
            self.terrace("explain", f"{name}.plan.yaml")

    def test_shipped_clusters(self):
        for file in sorted(ROOT.glob("topologies/*/cluster.yaml")):
            with self.subTest(file=file.parent.name):
                self.terrace("plan", file, "-o", "p.yaml")
                self.terrace("explain", "p.yaml", "--bytes", "1M")


class Verify(Command):
    # Expects every command that reads plans to refuse the changed plan with this message.
    def refused(self, old, new, message):
        self.terrace("plan", "cluster.yaml")
        text = self.read("cluster.plan.yaml")
        self.assertIn(old, text)
        self.write("bad.yaml", text.replace(old, new, 1))
        for command in ["verify", "explain"]:
            self.assertRegex(self.terrace(command, "bad.yaml", status=2), message)

    def test_proves(self):
        self.terrace("plan", "cluster.yaml")
        self.assertRegex(self.terrace("verify", "cluster.plan.yaml"),
                         r"proved all rules \(\d+ of allreduce, .*for all 8 ranks")
        self.assertIn("1000003", self.terrace("verify", "cluster.plan.yaml", "--count", "1000003"))
        self.terrace("verify", "cluster.plan.yaml", "--count", "0")
        self.terrace("verify", "cluster.plan.yaml", "--count", "-1", status=2)

    def test_a_corrupted_plan_is_refused(self):
        self.refused("size: 4", "size: 5", r"^bad\.yaml:5:\d+: .*changed by hand.*plan again")
        self.refused("terrace_plan: 2", "terrace_plan: 7", r"^bad\.yaml:1:\d+: .*7.*2")
        self.refused("terrace_plan: 2", "terrace_plan: 1",
                     r"^bad\.yaml:1:\d+: .*plan again: terrace plan CLUSTER -o bad\.yaml")
        self.refused("algorithm: direct", "provider: tcp", r"^bad\.yaml:\d+:\d+: .*messages, shared_memory, nccl, mpi")
        self.refused("algorithm: direct", "algorithm: magic",
                     r'^bad\.yaml:\d+:\d+: allreduce\.rules\[\d\]\.stages\[\d\]: .*"magic".*direct')
        self.refused("group: 4", "group: 3", r"^bad\.yaml:\d+:\d+: stages\[0\]")
        self.refused("up_to: max", "up_to: 64 GiB", r"^bad\.yaml:\d+:\d+: .*max")
        self.refused("reduce_scatter:", "broadcast:", r"^bad\.yaml:\d+:\d+: ")
        self.refused("predicted", "promised", r"^bad\.yaml:\d+:\d+: .*promised")

    def test_a_cut_plan_is_refused(self):
        self.terrace("plan", "cluster.yaml")
        text = self.read("cluster.plan.yaml")
        self.write("bad.yaml", text[: len(text) // 2])
        self.assertRegex(self.terrace("verify", "bad.yaml", status=2), r"^bad\.yaml:\d+:\d+: ")


class Diff(Command):
    def test_says_what_differs_and_where(self):
        self.terrace("plan", "cluster.yaml")
        self.assertIn("run every collective alike", self.terrace("diff", "cluster.plan.yaml", "cluster.plan.yaml"))
        self.write("slow.yaml", self.CLUSTER.replace("30 us", "300 us"))
        self.terrace("plan", "slow.yaml", "-o", "slow.plan.yaml")
        done = subprocess.run([TERRACE, "diff", "cluster.plan.yaml", "slow.plan.yaml"], cwd=self.directory, text=True,
                              capture_output=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, r"latency: 30 us -> 300 us")
        self.assertRegex(done.stdout, r"(?s)allreduce: .*up to .* gain .*\n +-> ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""The terrace command as a person meets it: exit codes, messages, the examples in its help.

usage: cli_test.py TERRACE SOURCE_ROOT
"""
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import string
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from scratch import Scratch, cluster, uneven

TERRACE, ROOT = (pathlib.Path(a).resolve() for a in sys.argv[1:3])

CLUSTER = cluster("cluster", 4, 2)
UNEVEN = uneven([[4, 2], [3, 3, 1]])
RAILS = """\
terrace_topology: 1
name: rails
levels:
  - {name: node, size: 2, fabric: shm}
  - {name: cluster, size: 3, fabric: ethernet, nics: {count: 2, bandwidth: 500 Mbit/s, rails: true, spine: 250 Mbit/s}}
"""
ONE_RANK = """\
terrace_topology: 1
name: one
levels: [{name: node, size: 1, fabric: shm}]
"""
COMMANDS = ["plan", "explain", "simulate", "verify", "topo", "diff", "detect", "export", "doctor", "info"]


def built_with_mpi():
    info = json.loads(subprocess.run([TERRACE, "info", "--json"], text=True, capture_output=True, check=True).stdout)
    return {back_end["name"]: back_end["available"] for back_end in info["backends"]}["mpi"]


class Command(Scratch):
    CLUSTER = CLUSTER

    def terrace(self, *arguments, status=0, environment={}):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TERRACE_")}
        done = subprocess.run([TERRACE, *arguments], cwd=self.directory, text=True, capture_output=True, timeout=120,
                              env={**inherited, **environment})
        called = f"terrace {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, status, called)
        if status == 0:
            self.assertEqual(done.stderr, "")
        else:
            self.assertNotEqual(done.stderr, "")
            self.assertEqual(done.stdout, "")
        return done.stdout + done.stderr

    # A changed plan is refused by all that read plans, with this message.
    def refused(self, old, new, message):
        self.terrace("plan", "cluster.yaml")
        text = self.read("cluster.plan.yaml")
        self.assertIn(old, text)
        self.write("bad.yaml", text.replace(old, new, 1))
        for command in ["verify", "explain"]:
            self.assertRegex(self.terrace(command, "bad.yaml", status=2), message)


class Usage(Command):
    def test_version(self):
        self.assertRegex(self.terrace("--version"), r"^terrace \d+\.\d+\.\d+\n$")

    def test_help_lists_the_commands(self):
        text = self.terrace("--help")
        for command in COMMANDS:
            self.assertIn(command, text)
            self.terrace(command, "--help")

    def test_wrong_usage_exits_2(self):
        for arguments in [[], ["fly"], ["plan"], ["plan", "cluster.yaml", "--fast"], ["explain"], ["verify"],
                          ["plan", "cluster.yaml", "--ranks", "cats"], ["plan", "cluster.yaml", "--ranks", "gpus"]]:
            self.terrace(*arguments, status=2)

    def test_what_is_mistyped_is_named_with_the_nearest(self):
        for line, said in [("plna cluster.yaml", 'terrace: there is no command "plna"; did you mean plan?'),
                           ("fly", 'terrace: there is no command "fly"'),
                           ("plan cluster.yaml --host x", "terrace plan: there is no option --host; did you mean --hosts?"),
                           ("plan --ouptut=x", "terrace plan: there is no option --ouptut; did you mean --output?"),
                           ("plan cluster.yaml --fast", "terrace plan: there is no option --fast"),
                           ("plan a b", "terrace plan: The following argument was not expected: b"),
                           ("plan", "terrace plan: MACHINE is required")]:
            command = said.partition(":")[0]
            self.assertEqual(self.terrace(*line.split(), status=2), f"{said}\nTry: {command} --help\n")

    def test_a_plan_and_a_cluster_are_not_each_other(self):
        self.terrace("plan", "cluster.yaml")
        for command in [["explain"], ["simulate"], ["verify"], ["export", "--json"], ["diff", "cluster.plan.yaml"]]:
            self.assertIn("cluster.yaml:1:1: this is a cluster file; make a plan of it first: terrace plan cluster.yaml\n",
                          self.terrace(*command, "cluster.yaml", status=2))
        for command in ["plan", "topo"]:
            self.assertIn("cluster.plan.yaml is a plan already; to see what it does: terrace explain cluster.plan.yaml\n",
                          self.terrace(command, "cluster.plan.yaml", status=2))

    def test_a_picture_is_no_plan(self):
        self.terrace("plan", "cluster.yaml")
        self.write("picture.svg", self.terrace("explain", "cluster.plan.yaml", "--svg"))
        self.assertIn("picture.svg: this is XML (a picture", self.terrace("explain", "picture.svg", status=2))

    def test_an_output_that_is_an_input_is_refused(self):
        self.terrace("plan", "cluster.yaml")
        plan, cluster = self.read("cluster.plan.yaml"), self.read("cluster.yaml")
        os.link(self.directory / "cluster.yaml", self.directory / "also.yaml")
        for line in ["plan cluster.yaml -o cluster.yaml", "plan cluster.yaml -o also.yaml --force",
                     "export cluster.plan.yaml --json -o ./cluster.plan.yaml",
                     "simulate cluster.plan.yaml --bytes 1M --trace cluster.plan.yaml",
                     "simulate cluster.plan.yaml --bytes 1M --svg cluster.plan.yaml --force"]:
            self.assertIn("this is the input, and is not overwritten", self.terrace(*line.split(), status=2), line)
        self.assertEqual((plan, cluster), (self.read("cluster.plan.yaml"), self.read("cluster.yaml")))

    def test_only_force_replaces_what_terrace_did_not_write(self):
        self.terrace("plan", "cluster.yaml")
        outputs = ["plan cluster.yaml -o", "export cluster.plan.yaml --json -o", "export cluster.plan.yaml --rankfile -o",
                   "export cluster.plan.yaml --simgrid -o", "detect -o", "detect --node-file",
                   "simulate cluster.plan.yaml --bytes 1M --trace", "simulate cluster.plan.yaml --bytes 1M --svg"]
        for line in outputs:
            self.write("mine", "notes of my own\n")
            self.assertIn("was not written by Terrace", self.terrace(*line.split(), "mine", status=2), line)
            self.assertEqual(self.read("mine"), "notes of my own\n")
            self.terrace(*line.split(), "mine", "--force")
            self.assertNotEqual(self.read("mine"), "notes of my own\n", line)
            if "--node-file" not in line:  # plain hwloc XML, which may be anybody's
                self.terrace(*line.split(), "mine")  # replaces its own

    def test_a_file_with_nearly_that_name_is_named(self):
        self.terrace("plan", "cluster.yaml")
        for line, near in [("topo cluster.yml", "cluster.yaml"), ("explain ./cluster.plan.yml", "./cluster.plan.yaml")]:
            self.assertIn(f"No such file or directory; did you mean {near}?\n", self.terrace(*line.split(), status=2))
        for far in ["nothing.like.it", "cluster", "closest.yaml"]:
            self.assertIn("No such file or directory\n", self.terrace("topo", far, status=2))
        self.assertIn("No such file or directory\n", self.terrace("topo", "no/cluster.yaml", status=2))

    def test_a_compressed_file_is_unpacked_by_its_reader(self):
        for magic, program in [(b"\x1f\x8b\x08", "gunzip"), (b"\x28\xb5\x2f\xfd", "unzstd"), (b"\xfd7zXZ\0", "unxz"),
                               (b"PK\x03\x04", "unzip")]:
            (self.directory / "packed").write_bytes(magic + bytes(20))
            for command in ["topo", "explain"]:
                self.assertIn(f"packed: is compressed; unpack it first: {program}\n",
                              self.terrace(command, "packed", status=2))

    def test_collectives_may_be_spelled_as_elsewhere(self):
        self.terrace("plan", "cluster.yaml")
        for name in ["all-reduce", "AllReduce", "ReduceScatter"]:
            text = self.terrace("explain", "cluster.plan.yaml", "--collective", name)
            self.assertRegex(text, r"^cluster: (allreduce|reduce_scatter) of ")
        self.assertIn("all_gatherer not in {allreduce,", self.terrace("explain", "cluster.plan.yaml", "--collective",
                                                                     "all_gatherer", status=2))

    def test_connections(self):
        self.terrace("plan", "cluster.yaml")
        text = self.terrace("explain", "cluster.plan.yaml", "--connections")
        self.assertRegex(text, r"^ranks that a rank exchanges messages with, of \d+, with all rules of the plan")
        rows = dict(re.findall(r"^  (\w[\w ]*?) +(\d+) +[\d.]+$", text, re.M))
        self.assertTrue({"allreduce", "comparing calls", "all of them"} <= set(rows), text)
        self.assertGreaterEqual(int(rows["all of them"]), max(int(most) for most in rows.values()))
        self.assertLess(int(rows["all on other nodes"]), int(rows["all of them"]))
        self.assertIn("excludes", self.terrace("explain", "cluster.plan.yaml", "--connections", "--svg", status=2))

    def test_one_rank_is_not_ranks(self):
        self.write("one.yaml", ONE_RANK)
        self.assertRegex(self.terrace("plan", "one.yaml"), r"^one: 1 rank \(1\)\n")
        for command in ["explain", "simulate"]:
            self.assertRegex(self.terrace(command, "one.plan.yaml", "--bytes", "1M"), "^one: allreduce of 1 MiB over 1 rank ")

    def test_hosts_at_the_wrong_place(self):
        self.write("hosts.yaml", self.CLUSTER + "hosts: n[0-1]\n")
        self.assertIn("hosts are named at the level whose domains are nodes", self.terrace("topo", "hosts.yaml", status=2))

    def test_sizes(self):
        self.terrace("plan", "cluster.yaml")
        self.assertIn("of 1 TiB over", self.terrace("explain", "cluster.plan.yaml", "--bytes", "1T"))
        self.assertIn("K, M, G or T", self.terrace("explain", "cluster.plan.yaml", "--bytes", "12Q", status=2))

    def test_completion(self):
        for shell, words in [("bash", ["--link-unit", "reduce_scatter", "compgen"]),
                             ("zsh", ["#compdef terrace", "(allreduce reduce_scatter", "_arguments"]),
                             ("fish", ["complete -c terrace", "__fish_seen_subcommand_from plan", "-l collective -x -a"])]:
            script = self.terrace("--generate", shell)
            for word in words:
                self.assertIn(word, script, shell)
            if shutil.which(shell):
                self.write("script", script)
                check = [shell, "--no-execute", "script"] if shell == "fish" else [shell, "-n", "script"]
                subprocess.run(check, cwd=self.directory, check=True, timeout=60)

    def test_standard_output_that_takes_nothing_is_an_error(self):
        self.terrace("plan", "cluster.yaml")
        for line in ["--help", "--version", "plan --help", "plan cluster.yaml -o -", "topo cluster.yaml", "info",
                     "explain cluster.plan.yaml --svg", "export cluster.plan.yaml --json"]:
            for to, reason in [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]:
                done = subprocess.run(f"{TERRACE} {line} >{to}", shell=True, cwd=self.directory, stderr=subprocess.PIPE,
                                      text=True)
                self.assertEqual((done.returncode, done.stderr),
                                 (2, f"terrace: standard output: cannot be written: {reason}\n"), line)

    def test_examples_in_the_help_run(self):
        self.terrace("plan", "cluster.yaml")
        profiles = self.directory / "profiles"
        profiles.mkdir()
        shutil.copy(self.directory / "cluster.plan.yaml", profiles / "p.plan.yaml")
        (profiles / "p.profile.yaml").write_text(
            "terrace_profile: 1\nplan: p.plan.yaml\ncalls:\n"
            "  - {collective: allreduce, bytes: 1048576, calls: 9, time: 1 s}\n")
        examples = 0
        for command in [[], *([c] for c in COMMANDS)]:
            text = self.terrace(*command, "--help")
            for line in re.findall(r"^  terrace (.*)$", text.partition("Examples:")[2], re.M):
                if any((self.directory / word).exists() for word in line.split()) or "--help" in line:
                    self.terrace(*line.split())
                    examples += 1
        self.assertGreaterEqual(examples, 8)


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


class Plan(Command):
    def test_reads_standard_input(self):
        done = subprocess.run([TERRACE, "plan", "-", "-o", "-"], input=self.CLUSTER, cwd=self.directory, text=True,
                              capture_output=True, timeout=120)
        self.terrace("plan", "cluster.yaml")
        self.assertEqual((done.returncode, done.stdout), (0, self.read("cluster.plan.yaml")))
        done = subprocess.run([TERRACE, "plan", "-"], input=self.CLUSTER.replace("fabric", "fabirc"), cwd=self.directory,
                              text=True, capture_output=True, timeout=120)
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

    # A plan has some more in it than the cluster file, which is just within the limits.
    def test_what_could_not_be_read_is_not_written(self):
        nodes = 249_980
        names = ",".join(map("".join, itertools.islice(itertools.product(string.ascii_lowercase, repeat=4), nodes)))
        self.write("large.yaml", "terrace_topology: 1\nname: large\nlevels:\n"
                   f"  - {{name: node, size: 1, fabric: shm, names: \"{names}\"}}\n"
                   f"  - {{name: core, size: {nodes}, fabric: ethernet, hosts: \"{names}\"}}\n")
        self.terrace("topo", "large.yaml")
        self.assertRegex(self.terrace("plan", "large.yaml", status=2), r"^large\.yaml: the plan is not written.*more than")
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


class Topo(Command):
    SAMPLES = ROOT / "tests" / "readers" / "samples"

    def test_yaml_reads_back(self):
        for machine in [["cluster.yaml"], [self.SAMPLES / "xgmi.xml"], [self.SAMPLES / "topology.conf"],
                        [self.SAMPLES / "nvswitch.xml", "--slurm", self.SAMPLES / "topology.conf", "--hosts", "n[001-006]"],
                        ["package:2 core:4"]]:
            text = self.terrace("topo", *machine, "--yaml")
            self.write("again.yaml", text)
            self.assertEqual(self.terrace("topo", "again.yaml", "--yaml"), text)

    def test_json_is_a_tree(self):
        tree = json.loads(self.terrace("topo", self.SAMPLES / "nvswitch.xml", "--json"))
        kinds = []
        parts = [tree]
        while parts:
            part = parts.pop()
            kinds.append(part["kind"])
            parts += part["children"]
        self.assertEqual([kinds.count(k) for k in ["machine", "numa", "switch", "gpu", "nic"]], [1, 2, 2, 4, 3])

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

    # As of a variable that is not set: never the whole machine.
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


class Simulate(Command):
    def setUp(self):
        super().setUp()
        self.terrace("plan", "cluster.yaml")

    def test_shows_times_and_loads(self):
        text = self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M")
        for part in ["allreduce of 4 MiB over 8 ranks", "simulated", "closed form", "limit        33.55 ms", "busy: most",
                     "processors", "bottleneck: links into core, busy 100 %"]:
            self.assertIn(part, text)

    def test_prints_json(self):
        found = json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--json"))
        self.assertEqual((found["ranks"], found["collective"], found["bytes"]), (8, "allreduce", 4 << 20))
        self.assertAlmostEqual(found["limit_s"], 33.55e-3, 5)
        self.assertEqual(found["busiest_link"]["level"], "core")
        for key in ("simulated_s", "closed_form_s"):
            self.assertTrue(found["limit_s"] <= found[key] < 1.2 * found["limit_s"], found)
        ring = json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--json", "--algorithm",
                                       "flat-ring", "--svg", "t.svg"))
        self.assertEqual(ring["shape"], "node+core:8 scatter ring")

    def test_simulates_reproducible_reductions(self):
        def time(*asked):
            return json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--algorithm", "flat-ring",
                                           "--json", *asked))["simulated_s"]
        self.assertNotEqual(time("--reproducible"), time())

    def test_lets_bursts_pass(self):
        def time(*asked):
            return json.loads(self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--json", *asked))["simulated_s"]
        self.assertEqual(time(), time("--burst", "0"))
        self.assertTrue(0.9 * time() < time("--burst", "128K") < time())
        asked = ["simulate", "cluster.plan.yaml", "--bytes", "4M", "--burst", "128K"]
        self.assertAlmostEqual(json.loads(self.terrace(*asked, "--json"))["bursts_s"], (128 << 10) / 125e6, 5)
        self.assertIn("closed form, less bursts", self.terrace(*asked))
        self.assertIn("not a size", self.terrace("simulate", "cluster.plan.yaml", "--burst", "much", status=2))

    def test_runs_baselines_and_other_collectives(self):
        self.assertIn("node:4 scatter", self.terrace("simulate", "cluster.plan.yaml", "--bytes", "1M", "--algorithm", "staged"))
        self.assertIn("node+core:8 scatter ring",
                      self.terrace("simulate", "cluster.plan.yaml", "--bytes", "1M", "--algorithm", "flat-ring"))
        for name in ["reduce_scatter", "allgather", "broadcast", "reduce"]:
            self.assertIn(name, self.terrace("simulate", "cluster.plan.yaml", "--bytes", "1M", "--collective", name))

    # Slices of one track may contain one another, but not overlap: viewers draw nonsense else.
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
            self.terrace("simulate", "uneven.plan.yaml", "--bytes", "4M", "--collective", collective, "--trace", "t.json")
            self.nests([e for e in json.loads(self.read("t.json"))["traceEvents"] if e["ph"] == "X"])
            if shutil.which("trace_processor_shell"):  # Perfetto's own reader
                done = subprocess.run(["trace_processor_shell", "--query-string",
                                       "select count(*) from slice; select value from stats where severity = 'error' "
                                       "and value > 0", "t.json"], cwd=self.directory, text=True, capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_writes_a_trace_and_a_picture(self):
        self.terrace("simulate", "cluster.plan.yaml", "--bytes", "4M", "--trace", "t.json", "--svg", "t.svg")
        events = json.loads(self.read("t.json"))["traceEvents"]
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["pid"] for e in spans}, set(range(1, 9)))
        self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans))
        self.nests(spans)
        loads = [e["args"]["percent"] for e in events if e["ph"] == "C"]
        self.assertTrue(loads and all(0 <= load <= 100 for load in loads))
        picture = xml.etree.ElementTree.parse(self.directory / "t.svg").getroot()
        texts = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]
        for part in ["rank 0", "rank 7", "links into core", "1 Gbit/s"]:
            self.assertIn(part, texts)

    def test_refuses_what_is_too_long(self):
        self.write("big.yaml", CLUSTER.replace("size: 4", "size: 128").replace("size: 2", "size: 128"))
        self.terrace("plan", "big.yaml", "-o", "big.plan.yaml")
        said = self.terrace("simulate", "big.plan.yaml", "--algorithm", "flat-ring", status=2)
        self.assertIn("instructions", said)
        self.write("big.yaml", CLUSTER.replace("size: 4", "size: 8").replace("size: 2", "size: 16"))
        self.terrace("plan", "big.yaml", "-o", "big.plan.yaml")
        said = self.terrace("simulate", "big.plan.yaml", "--algorithm", "central", "--bytes", "512M", status=2)
        size = re.search(r"the largest power of two that fits is --bytes (\d+) ([KMG]i)?B", said).group(1, 2)
        self.terrace("simulate", "big.plan.yaml", "--algorithm", "central", "--bytes", "".join(size) + "B")


class Export(Command):
    NAMED = UNEVEN.replace("name: rack,", 'name: rack, hosts: "tux[1-5]",')

    def export(self, cluster, form):
        self.write("c.yaml", cluster)
        self.terrace("plan", "c.yaml", "-o", "p.yaml")
        return self.terrace("export", "p.yaml", form)

    def test_ranks_are_node_by_node(self):
        lines = self.export(self.NAMED, "--rankfile").splitlines()
        self.assertEqual(lines.pop(0), "# made by terrace export --rankfile")
        self.assertEqual(len(lines), 13)
        self.assertEqual([lines[0], lines[4], lines[12]], ["rank 0=tux1 slot=0", "rank 4=tux2 slot=0",
                                                           "rank 12=tux5 slot=0"])
        unnamed = self.export(UNEVEN, "--rankfile")
        self.assertIn("rank 4=+n1 slot=0", unnamed)
        self.assertIn("# of 5 nodes, from the scheduler or by --hostfile", unnamed)

    def test_hosts_have_as_many_slots_as_ranks(self):
        self.assertEqual(self.export(self.NAMED, "--hostfile").split("\n")[1:6],
                         ["tux1 slots=4", "tux2 slots=2", "tux3 slots=3", "tux4 slots=3", "tux5 slots=1"])
        self.assertIn("hosts:", self.terrace("export", self.plan_without_names(), "--hostfile", status=2))

    def plan_without_names(self):
        self.terrace("plan", "cluster.yaml")
        return "cluster.plan.yaml"

    # Every way between two ranks has the latency of the level where they meet, and its slowest link's bandwidth.
    def test_simgrid_has_a_way_between_any_two_ranks(self):
        platform = xml.etree.ElementTree.fromstring(self.export(UNEVEN, "--simgrid"))
        links = {l.get("id"): (float(l.get("bandwidth")[:-3]), float(l.get("latency")[:-1]))
                 for l in platform.iter("link")}
        zones = {z.get("id") for z in platform.iter("zone")}
        ways = {}
        for route in platform.iter("zoneRoute"):
            self.assertLessEqual({route.get("src"), route.get("dst")}, zones)
            ways.setdefault(route.get("gw_src"), {})[route.get("gw_dst")] = links[route[0].get("id")]
        def way(here, there, seen):
            if here == there:
                return []
            for beyond in ways.get(here, {}):
                if beyond not in seen:
                    rest = way(beyond, there, seen | {beyond})
                    if rest is not None:
                        return [ways[here][beyond], *rest]
        for there, latency, bandwidth in [(1, 0.5e-6, 10e9), (4, 30e-6, 125e6), (12, 40e-6, 62.5e6)]:
            passed = way("rank0", f"rank{there}", {"rank0"})
            self.assertAlmostEqual(sum(p[1] for p in passed), latency, 12)
            self.assertEqual(min(p[0] for p in passed), bandwidth)

    def test_simgrid_links_the_nodes_of_a_torus(self):
        torus = ("terrace_topology: 1\nname: t\ntorus: [4, 2]\n"
                 "links: [{fabric: infiniband, bandwidth: 8 GB/s, latency: 1 us}, {fabric: infiniband, bandwidth: 2 GB/s, latency: 3 us}]\n"
                 "levels: [{name: node, size: 2, fabric: shm, latency: 0.5 us}]\n")
        platform = xml.etree.ElementTree.fromstring(self.export(torus, "--simgrid"))
        links = {l.get("id"): (l.get("bandwidth"), l.get("latency")) for l in platform.iter("link")}
        ways = {(r.get("gw_src"), r.get("gw_dst")): links[r[0].get("id")] for r in platform.iter("zoneRoute")
                if r.get("gw_src").startswith("router0") and r.get("gw_dst").startswith("router0")}
        near = {(a, b) for a in range(8) for b in range(8)
                if a // 4 == b // 4 and (a - b) % 4 in (1, 3) or a % 4 == b % 4 and a != b}
        self.assertEqual({(int(a[8:]), int(b[8:])) for a, b in ways if "hub" not in a + b}, near)
        self.assertEqual(ways["router0_3", "router0_0"], ("8e+09Bps", "5e-07s"))
        self.assertEqual(ways["router0_2", "router0_6"], ("2e+09Bps", "2.5e-06s"))
        self.assertEqual(len({h.get("id") for h in platform.iter("host")}), 16)

    def test_json_has_all_rules(self):
        plan = json.loads(self.export(UNEVEN, "--json"))
        self.assertEqual((plan["ranks"], plan["nodes"]), (13, [4, 2, 3, 3, 1]))
        self.assertEqual(len(plan["rules"]), 8)
        for rules in plan["rules"].values():
            self.assertIsNone(rules[-1]["up_to_bytes"])
            for rule in rules:
                self.assertGreaterEqual(rule["predicted_s"], 0.99 * rule["limit_s"])
                self.assertTrue(rule["stages"])
                for stage in rule["stages"]:
                    self.assertEqual(stage["provider"], "messages" if "algorithm" in stage else "shared_memory")

    def test_takes_one_form(self):
        for forms in [[], ["--json", "--simgrid"]]:
            self.assertIn("--rankfile", self.terrace("export", self.plan_without_names(), *forms, status=2))


class Pictures(Command):
    def texts(self, svg):
        return [t.text for t in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]

    def test_topo_draws_domains_and_rates(self):
        self.write("uneven.yaml", UNEVEN)
        texts = self.texts(self.terrace("topo", "uneven.yaml", "--svg"))
        for part in ["uneven", "rack 1", "node 4", "0", "12", "core: 500 Mbit/s ethernet", "a message takes 30 us"]:
            self.assertIn(part, texts)
        graph = self.terrace("topo", "uneven.yaml", "--dot")
        self.assertEqual(graph.count(" -- "), 2 + 5 + 13)
        self.assertIn('"500 Mbit/s"', graph)

    def test_topo_draws_the_inside_of_a_node(self):
        texts = self.texts(self.terrace("topo", "package:2 core:3", "--svg"))
        for part in ["inside a node", "package 1", "core 5", "rank 5", "* assumed, not measured"]:
            self.assertIn(part, texts)

    def test_topo_draws_nics(self):
        self.write("nics.yaml", RAILS)
        texts = self.texts(self.terrace("topo", "nics.yaml", "--svg"))
        for part in ["2 NICs of 500 Mbit/s on rails", "spine 250 Mbit/s"]:
            self.assertIn(part, texts)
        self.assertIn('"2 NICs of 500 Mbit/s on rails, spine 250 Mbit/s"', self.terrace("topo", "nics.yaml", "--dot"))

    def test_explain_draws_stages_and_loads(self):
        self.terrace("plan", "cluster.yaml")
        texts = self.texts(self.terrace("explain", "cluster.plan.yaml", "--bytes", "32M", "--svg"))
        for part in ["cluster: allreduce of 32 MiB", "domains of 4", "33.6 MB, 100 %"]:
            self.assertIn(part, texts)
        self.assertTrue(any(t.startswith("1. node ") for t in texts))
        self.assertIn("33.6 MB, 100 %", self.terrace("explain", "cluster.plan.yaml", "--bytes", "32M", "--dot"))

    def test_large_machines_are_drawn_in_part(self):
        self.write("big.yaml", CLUSTER.replace("size: 4", "size: 64").replace("size: 2", "size: 4096"))
        svg = self.terrace("topo", "big.yaml", "--svg")
        self.assertLess(len(svg), 50_000)
        texts = self.texts(svg)
        self.assertIn("node 4095", texts)
        self.assertTrue(any(t.endswith(" more") for t in texts))


class Doctor(Command):
    def doctor(self, files=None, path=None):
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        environment = {**os.environ, **({"PATH": path} if path else {})}
        return subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, preexec_fn=limit, env=environment)

    def dump(self, rank, waits, last="send"):
        event = {"time_us": 5e6 + rank, "call": 12, "what": last, "ends": False, "stage": 1, "down": False, "step": 3,
                 "lane": 0, "chunk": 7, "peer": 2}
        text = json.dumps({"rank": rank, "host": f"n{rank}", "pid": 100 + rank, "communicator": 0, "time_us": 6e6,
                           "waits_for": waits, "events": [event]})
        (pathlib.Path(self.directory) / f"stuck.{rank}.json").write_text(text)

    def verdict(self, status=0):
        done = subprocess.run([TERRACE, "doctor", "--dumps", self.directory], text=True, capture_output=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_dumps_say_who_all_wait_for_in_the_end(self):
        self.assertIn("has no dumps", self.verdict(2))
        self.dump(0, ["call 12: stage 1 up, step 4, chunk 7: recv from rank 2"])
        self.dump(2, ["call 12: stage 1 up, step 4, chunk 7: recv from rank 3"])
        self.dump(1, [], "recv")
        text = self.verdict()
        self.assertTrue(text.startswith("2 of 3 ranks wait for rank 3 in the end, which has written no dump"), text)
        self.assertIn("rank 0 on n0, process 100: waits for rank 2\n  call 12: stage 1 up", text)
        self.assertIn("rank 1 on n1, process 101: waits for nobody", text)
        self.dump(3, [])
        self.assertIn("wait for rank 3 in the end (n3, process 103), which waits for nobody; last it began send of call 12",
                      self.verdict())
        self.dump(3, ["call 12: stage 1 up, step 4, chunk 7: send to rank 2"])
        self.assertIn("in a circle", self.verdict())
        (pathlib.Path(self.directory) / "bad.9.json").write_text("{")
        self.assertIn("bad.9.json", self.verdict(2))

    def test_every_line_has_a_verdict_and_every_problem_a_fix(self):
        done = self.doctor()
        lines = done.stdout.splitlines()
        for what in ["shared memory", "open files", "network", "host name", "MPI", "ranks without MPI", "GPU driver", "variables"]:
            self.assertTrue(any(re.match(f"(ok  |note|FIX ) {what}: .", line) for line in lines), done.stdout)
        for line, after in zip(lines, [*lines[1:], ""]):
            if line.startswith(("note", "FIX")):
                self.assertRegex(after, "^       .")
        self.assertEqual(done.returncode, 1 if "FIX " in done.stdout else 0)

    def test_names_the_launcher_that_started_it(self):
        alone = {name: value for name, value in os.environ.items() if not re.match("OMPI|PMI|SLURM", name)}
        for variables, said in [({}, "ok   launcher: not started by mpirun or srun"),
                                ({"SLURM_STEP_NUM_TASKS": "8"}, "ok   launcher: srun, 8 tasks"),
                                ({"OMPI_COMM_WORLD_SIZE": "4"}, "launcher: mpirun of Open MPI, 4 ranks"),
                                ({"PMI_SIZE": "4"}, "launcher: mpirun of MPICH, 4 ranks")]:
            done = subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, env={**alone, **variables})
            self.assertIn(said, done.stdout)
        both = [subprocess.run([TERRACE, "doctor"], text=True, capture_output=True, env={**alone, name: "4"}).stdout
                for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")]
        # One of them is not what this was built with.
        others = [re.search("FIX  launcher: .*\n +terrace-bench and programs built with", out) for out in both]
        self.assertEqual(sum(map(bool, others)), 1 if built_with_mpi() else 0)

    def test_finds_few_files_and_another_mpi(self):
        self.assertRegex(self.doctor(files=64).stdout, "FIX  open files: 64 at a time\n +every peer.*ulimit -n")
        program = self.directory / "mpirun"
        program.write_text("#!/bin/sh\necho other launcher 1.0\n")
        program.chmod(0o755)
        done = self.doctor(path=f"{self.directory}:/bin")
        if built_with_mpi():
            self.assertRegex(done.stdout, "FIX  MPI: no mpirun in PATH")
            self.assertEqual(done.returncode, 1)
        else:
            self.assertRegex(done.stdout, "ok   MPI: built without MPI")


class Nics(Command):
    """A script that gives each rank its NIC, and ranks that run without."""
    CLUSTER = """\
terrace_topology: 1
name: nics
levels:
  - {name: node, size: 7, fabric: shm, bandwidth: 10 GB/s, latency: 0.5 us}
  - {name: core, size: 2, fabric: ethernet, nics: {count: 2, bandwidth: 1 Gbit/s}, latency: 30 us}
"""
    UNLIKE = CLUSTER.replace("{count: 2,", "{count: [2, 1],").replace("size: 7", "size: 2")

    def setUp(self):
        super().setUp()
        self.terrace("plan", "cluster.yaml", "-o", "plan.yaml")

    def script(self, plan, *options):
        self.terrace("export", plan, "--nics", *options, "-o", "nics.sh")
        self.assertTrue(os.access(self.directory / "nics.sh", os.X_OK))

    def nic_of(self, variable, rank, name="OMPI_MCA_btl_tcp_if_include"):
        done = subprocess.run(["./nics.sh", "sh", "-c", f'echo "$0 ${name}"', "two words"], text=True,
                              capture_output=True, cwd=self.directory,
                              env={"PATH": os.environ["PATH"], variable: str(rank)})
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()

    def test_a_script_goes_by_the_rank_on_its_node(self):
        self.script("plan.yaml")
        self.assertEqual([self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", rank) for rank in (0, 3, 4, 6)],
                         ["two words eth0", "two words eth0", "two words eth1", "two words eth1"])
        self.assertEqual(self.nic_of("SLURM_LOCALID", 5), "two words eth1")
        self.assertEqual(self.nic_of("LOCAL_RANK", 4), "two words eth1")
        self.assertRegex(self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", 7), "rank '7' is none of the plan's")
        self.assertRegex(self.nic_of("NOTHING", 0), "rank '' is none")
        self.script("plan.yaml", "--interfaces", "mlx5_0:1,mlx5_3:1")
        self.assertEqual(self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", 4, "UCX_NET_DEVICES"), "two words mlx5_3:1")
        self.assertEqual(self.nic_of("OMPI_COMM_WORLD_LOCAL_RANK", 4), "two words")

    def test_unlike_nodes_go_by_the_rank_in_the_job(self):
        self.write("unlike.yaml", self.UNLIKE)
        self.terrace("plan", "unlike.yaml", "-o", "unlike.plan.yaml")
        self.script("unlike.plan.yaml", "--interfaces", "a,b")
        self.assertEqual([self.nic_of("OMPI_COMM_WORLD_RANK", rank) for rank in range(4)],
                         [f"two words {nic}" for nic in "abaa"])

    def test_refuses(self):
        self.assertIn("names 1, but a node has 2 NICs",
                      self.terrace("export", "plan.yaml", "--nics", "--interfaces", "a", status=2))
        self.assertIn("is no name of an interface",
                      self.terrace("export", "plan.yaml", "--nics", "--interfaces", "a,b;reboot", status=2))
        self.assertIn("--nics", self.terrace("export", "plan.yaml", "--json", "--interfaces", "a,b", status=2))
        self.write("one.yaml", CLUSTER)
        self.terrace("plan", "one.yaml", "-o", "one.plan.yaml")
        self.assertIn("the plan has no NICs", self.terrace("export", "one.plan.yaml", "--nics", status=2))

    # What the doctor says of a job of these ranks.
    def doctor(self, nics, told=("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
               nic_variable="OMPI_MCA_btl_tcp_if_include"):
        ranks = [subprocess.Popen(["sleep", "60"], env={
            "PATH": os.environ["PATH"], told[0]: str(rank), told[1]: str(rank), told[2]: "14",
            **({nic_variable: nic} if nic else {})}) for rank, nic in nics.items()]
        try:
            done = subprocess.run([TERRACE, "doctor", "--plan", "plan.yaml"], cwd=self.directory, text=True,
                                  capture_output=True)
            return next(line for line in done.stdout.splitlines() if "NICs of ranks" in line)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()

    def test_the_doctor_sees_ranks_without_their_nics(self):
        self.assertEqual(self.doctor({}), "note NICs of ranks: no job of 14 ranks by mpirun, srun or torchrun runs here")
        self.assertEqual(self.doctor({0: "eth0", 1: "eth0", 6: "eth1"}), "ok   NICs of ranks: 3, as the plan has it")
        self.assertEqual(self.doctor({0: "eth0", 6: "eth0"}),
                         "FIX  NICs of ranks: ranks 0 and 6 both use eth0; the plan gives them NICs 0 and 1")
        self.assertEqual(self.doctor({0: "eth0", 1: "eth1"}),
                         "FIX  NICs of ranks: ranks 0 and 1 use eth0 and eth1; the plan gives them one NIC, 0")
        for told in (("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"), ("RANK", "LOCAL_RANK", "WORLD_SIZE")):
            self.assertEqual(self.doctor({0: "eth0", 6: "eth0"}, told, "UCX_NET_DEVICES"),
                             "FIX  NICs of ranks: ranks 0 and 6 both use eth0; the plan gives them NICs 0 and 1")
        for every in ("", "eth0,eth1", "10.0.0.0/8"):
            self.assertEqual(self.doctor({0: "eth0", 6: every}),
                             "FIX  NICs of ranks: rank 6 may use every NIC; the plan gives it NIC 1")


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
        for name, baseline, limit in [("reduce_scatter", "flat-ring", "134.2 ms"), ("allgather", "two-level", "134.2 ms"),
                                      ("broadcast", "flat-chain", "268.4 ms"), ("reduce", "central", "268.4 ms")]:
            text = self.terrace("explain", "cluster.plan.yaml", "--bytes", "32MiB", "--collective", name)
            for part in [f"cluster: {name} of 32 MiB", "->", baseline, f"limit {limit}"]:
                self.assertIn(part, text)
        self.assertIn("allgather", self.terrace("explain", "cluster.plan.yaml", "--collective", "allgathers", status=2))


class Verify(Command):
    def test_proves(self):
        self.terrace("plan", "cluster.yaml")
        self.assertRegex(self.terrace("verify", "cluster.plan.yaml"), r"proved all rules \(\d+ of allreduce, .*for all 8 ranks")
        self.assertIn("1000003", self.terrace("verify", "cluster.plan.yaml", "--count", "1000003"))
        self.terrace("verify", "cluster.plan.yaml", "--count", "0")
        self.terrace("verify", "cluster.plan.yaml", "--count", "-1", status=2)

    def test_a_corrupted_plan_is_refused(self):
        self.refused("size: 4", "size: 5", r"^bad\.yaml:5:\d+: .*changed by hand.*plan again")
        self.refused("terrace_plan: 2", "terrace_plan: 7", r"^bad\.yaml:1:\d+: .*7.*2")
        self.refused("terrace_plan: 2", "terrace_plan: 1", r"^bad\.yaml:1:\d+: .*plan again: terrace plan CLUSTER -o bad\.yaml")
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


class Info(Command):
    def test_says_what_there_is_and_why_not(self):
        text = self.terrace("info")
        for pattern in [r"^terrace \d+\.\d+\.\d+$", r"^  mpi +(yes +\S.* \d+\.\d+|no +.*libopenmpi-dev)", r"^  shm +yes ", r"^  ucx +(yes|no) +\S", r"^  pmix +(yes|no) +\S",
                        r"^  loopback +yes ",
                        r"^  cuda +(yes|no) +\S", r"^  nccl +(yes|no) +\S", r"^  hwloc +\d+\.\d+", r"^  yaml-cpp +\d+\.\d+",
                        r"^  TERRACE_PLAN +- +default ", r"^  TERRACE_CHECK +first +default "]:
            self.assertRegex(text, re.compile(pattern, re.M))

    def test_says_what_of_gpus_is_missing_and_what_to_do(self):
        alone = self.directory / "terrace"
        shutil.copy(TERRACE, alone)
        gpus = lambda: {b["name"]: b for b in json.loads(subprocess.run([alone, "info", "--json"], text=True,
                                                                         capture_output=True, check=True).stdout)["backends"]}
        self.assertRegex(gpus()["cuda"]["detail"], r"terrace-nccl\.so")  # of no build, and perhaps one that is installed
        self.write("terrace-nccl.so", "no library")
        for back_end in ["cuda", "nccl"]:
            self.assertFalse(gpus()[back_end]["available"])
        self.assertRegex(gpus()["cuda"]["detail"], rf"{self.directory}/terrace-nccl\.so: .*LD_LIBRARY_PATH")

    def test_says_which_package_is_missing_for_ranks_without_mpi(self):
        alone = self.directory / "terrace"
        shutil.copy(TERRACE, alone)
        info = json.loads(subprocess.run([alone, "info", "--json"], text=True, capture_output=True, check=True).stdout)
        for back_end in info["backends"]:
            if back_end["name"] in ("ucx", "pmix") and not back_end["available"]:
                self.assertIn(f"lib{back_end['name']}-dev", back_end["detail"])

    def test_says_where_a_value_comes_from(self):
        text = self.terrace("info", environment={"TERRACE_TIMEOUT": "2.5", "TERRACE_LOG": ""})
        self.assertRegex(text, r"TERRACE_TIMEOUT +2\.5 +environment ")
        self.assertRegex(text, r"TERRACE_LOG +warn +default ")

    def test_json(self):
        info = json.loads(self.terrace("info", "--json", environment={"TERRACE_CHECK": "every"}))
        self.assertEqual({b["name"]: b["available"] for b in info["backends"]}["shm"], True)
        variables = {v["name"]: v for v in info["variables"]}
        self.assertEqual(variables["TERRACE_CHECK"]["value"], "every")
        self.assertEqual(variables["TERRACE_CHECK"]["source"], "environment")
        self.assertIsNone(variables["TERRACE_PLAN"]["value"])
        self.assertEqual(variables["TERRACE_LOG"]["source"], "default")
        self.assertEqual(info["problems"], [])

    def test_reports_what_is_wrong_with_the_environment(self):
        for wrong, message in [({"TERRACE_TIMEOUT": "soon"}, 'TERRACE_TIMEOUT is "soon"; allowed: seconds'),
                               ({"TERRACE_LOGG": "info"}, "TERRACE_LOGG .*did you mean TERRACE_LOG")]:
            done = subprocess.run([TERRACE, "info"], text=True, capture_output=True, timeout=60,
                                  env={**os.environ, **wrong})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, message)


class Links(unittest.TestCase):
    """The planner is for people without a cluster at hand: no MPI, CUDA or NCCL in it."""

    FORBIDDEN = re.compile(r"libmpi|libopen-|libpmpi|libcuda|libnccl|\bMPI_|\bnccl[A-Z]|\bcuda[A-Z]")

    def test_links_no_mpi_cuda_or_nccl(self):
        for tool in [["ldd"], ["nm", "--undefined-only", "--dynamic"]]:
            if shutil.which(tool[0]) is None:
                self.skipTest(f"no {tool[0]} here")
            text = subprocess.run([*tool, TERRACE], text=True, capture_output=True, check=True).stdout
            # hwloc of some distributions brings its own plug-ins for GPUs; it is loaded, not linked.
            self.assertIsNone(self.FORBIDDEN.search(text), text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

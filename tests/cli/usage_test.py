#!/usr/bin/env python3
"""Common behaviour of all terrace commands: help, exit codes, messages, inputs and outputs.

usage: usage_test.py TERRACE SOURCE_ROOT
"""
import os
import re
import subprocess
import sys
import unittest

from command import ONE_RANK, TERRACE, Command

COMMANDS = ["plan", "explain", "simulate", "export", "verify", "topo", "diff", "detect", "doctor", "info"]

# Root ignores permissions of folders unless it gives up the capability for that.
AS_OTHERS = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []


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
                           ("plan cluster.yaml --host x",
                            "terrace plan: there is no option --host; did you mean --hosts?"),
                           ("plan --ouptut=x", "terrace plan: there is no option --ouptut; did you mean --output?"),
                           ("plan cluster.yaml --fast", "terrace plan: there is no option --fast"),
                           ("plan a b", "terrace plan: The following argument was not expected: b"),
                           ("plan", "terrace plan: MACHINE is required")]:
            command = said.partition(":")[0]
            self.assertEqual(self.terrace(*line.split(), status=2), f"{said}\nTry: {command} --help\n")

    def test_a_plan_and_a_cluster_are_not_each_other(self):
        self.terrace("plan", "cluster.yaml")
        for command in [["explain"], ["simulate"], ["verify"], ["export", "--to", "json"],
                        ["diff", "cluster.plan.yaml"]]:
            self.assertIn("cluster.yaml:1:1: this is a cluster file; make a plan of it first: "
                          "terrace plan cluster.yaml\n",
                          self.terrace(*command, "cluster.yaml", status=2))
        for command in ["plan", "topo"]:
            self.assertIn("cluster.plan.yaml is a plan already; to see what it does: "
                          "terrace explain cluster.plan.yaml\n",
                          self.terrace(command, "cluster.plan.yaml", status=2))

    def test_a_picture_is_no_plan(self):
        self.write("picture.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n")
        self.assertIn("picture.svg: this is XML (a picture", self.terrace("explain", "picture.svg", status=2))

    def test_an_output_that_is_an_input_is_refused(self):
        self.terrace("plan", "cluster.yaml")
        plan, cluster = self.read("cluster.plan.yaml"), self.read("cluster.yaml")
        os.link(self.directory / "cluster.yaml", self.directory / "also.yaml")
        for line in ["plan cluster.yaml -o cluster.yaml", "plan cluster.yaml -o also.yaml --force",
                     "export cluster.plan.yaml --to json -o ./cluster.plan.yaml",
                     "simulate cluster.plan.yaml --bytes 1M --trace cluster.plan.yaml --force"]:
            self.assertIn("this is the input, and is not overwritten", self.terrace(*line.split(), status=2), line)
        self.assertEqual((plan, cluster), (self.read("cluster.plan.yaml"), self.read("cluster.yaml")))

    def test_only_force_replaces_what_terrace_did_not_write(self):
        self.terrace("plan", "cluster.yaml")
        outputs = ["plan cluster.yaml -o", "export cluster.plan.yaml --to json -o",
                   "export cluster.plan.yaml --to rankfile -o", "export cluster.plan.yaml --to simgrid -o", "detect -o",
                   "detect --node-file", "simulate cluster.plan.yaml --bytes 1M --trace"]
        for line in outputs:
            self.write("mine", "notes of my own\n")
            self.assertIn("was not written by Terrace", self.terrace(*line.split(), "mine", status=2), line)
            self.assertEqual(self.read("mine"), "notes of my own\n")
            self.terrace(*line.split(), "mine", "--force")
            self.assertNotEqual(self.read("mine"), "notes of my own\n", line)
            if "--node-file" not in line:  # plain hwloc XML may come from another program
                self.terrace(*line.split(), "mine")  # replaces a file of its own

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

    def test_one_rank_is_not_ranks(self):
        self.write("one.yaml", ONE_RANK)
        self.assertRegex(self.terrace("plan", "one.yaml"), r"^one: 1 rank \(1\)\n")
        for command in ["explain", "simulate"]:
            self.assertRegex(self.terrace(command, "one.plan.yaml", "--bytes", "1M"),
                             "^one: allreduce of 1 MiB over 1 rank ")

    def test_hosts_at_the_wrong_place(self):
        self.write("hosts.yaml", self.CLUSTER + "hosts: n[0-1]\n")
        self.assertIn("hosts are named at the level whose domains are nodes",
                      self.terrace("topo", "hosts.yaml", status=2))

    def test_sizes(self):
        self.terrace("plan", "cluster.yaml")
        self.assertIn("of 1 TiB over", self.terrace("explain", "cluster.plan.yaml", "--bytes", "1T"))
        self.assertIn("K, M, G or T", self.terrace("explain", "cluster.plan.yaml", "--bytes", "12Q", status=2))

    def test_completion(self):
        script = self.terrace("--generate", "bash")
        for word in ["--link-unit", "reduce_scatter", "compgen"]:
            self.assertIn(word, script)
        self.write("script", script)
        subprocess.run(["bash", "-n", "script"], cwd=self.directory, check=True, timeout=60)

    def test_standard_output_that_takes_nothing_is_an_error(self):
        self.terrace("plan", "cluster.yaml")
        for line in ["--help", "--version", "plan --help", "plan cluster.yaml -o -", "topo cluster.yaml", "info",
                     "explain cluster.plan.yaml", "export cluster.plan.yaml --to json"]:
            for to, reason in [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]:
                done = subprocess.run(f"{TERRACE} {line} >{to}", shell=True, cwd=self.directory, stderr=subprocess.PIPE,
                                      text=True)
                self.assertEqual((done.returncode, done.stderr),
                                 (2, f"terrace: standard output: cannot be written: {reason}\n"), line)

    def test_standard_error_that_takes_nothing_changes_no_exit_code(self):
        for line in ["plan nowhere.yaml", "fly"]:
            for to in ["/dev/full", "&-"]:
                done = subprocess.run(f"{TERRACE} {line} 2>{to}", shell=True, cwd=self.directory)
                self.assertEqual(done.returncode, 2, line)

    def test_an_output_that_cannot_be_written_says_why(self):
        locked = self.directory / "locked"
        locked.mkdir(mode=0o555)
        for name, why in [("locked/x.yaml", "its folder takes no file: Permission denied"),
                          ("nowhere/x.yaml", "name a file in a folder that exists"),
                          ("locked", "name a file in a folder that exists")]:
            done = subprocess.run([*AS_OTHERS, TERRACE, "detect", "-o", name], cwd=self.directory, text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (2, f"{name}: cannot be written; {why}\n"))

    def test_every_output_may_be_standard_output(self):
        self.terrace("plan", "cluster.yaml")
        for line, begins in [("plan cluster.yaml -o -", "terrace_plan:"), ("detect -o -", "#"), ("detect", "#"),
                             ("export cluster.plan.yaml --to json -o -", "{"),
                             ("export cluster.plan.yaml --to json", "{"),
                             ("export cluster.plan.yaml --to simgrid -o -", "<?xml"),
                             ("simulate cluster.plan.yaml --trace -", "{"),
                             ("report cluster.plan.yaml -o -", "<!DOCTYPE html>")]:
            done = subprocess.run([TERRACE, *line.split()], cwd=self.directory, text=True, capture_output=True,
                                  check=True)
            self.assertEqual(done.stdout[:len(begins)], begins, line)
        self.assertFalse((self.directory / "-").exists())
        self.assertIn("name a file", self.terrace("detect", "--node-file", "-", status=2))

    def test_detect_describes_what_it_may_run_on(self):
        core = min(os.sched_getaffinity(0))
        done = subprocess.run(["taskset", "-c", str(core), TERRACE, "detect", "--ranks", "cores"], text=True,
                              capture_output=True, check=True)
        self.assertIn("size: 1,", done.stdout)

    def test_examples_in_the_help_run(self):
        self.terrace("plan", "cluster.yaml")
        self.write_profile({1048576: "1 s"})
        examples = 0
        for command in [[], *([c] for c in COMMANDS)]:
            text = self.terrace(*command, "--help")
            for line in re.findall(r"^  terrace (.*)$", text.partition("Examples:")[2], re.M):
                if any((self.directory / word).exists() for word in line.split()) or "--help" in line:
                    self.terrace(*line.split())
                    examples += 1
        self.assertGreaterEqual(examples, 8)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

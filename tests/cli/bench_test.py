#!/usr/bin/env python3
"""terrace-bench as a user runs it: under mpirun, with exit codes, messages, table and JSON. Asserts no time.

usage: bench_test.py TERRACE TERRACE_BENCH MPIRUN [MPIRUN_OPTION ...]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from scratch import Scratch

TERRACE, BENCH = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
MPIRUN = sys.argv[3:]
RANKS = 4
EXCHANGES = ["alltoall", "gather", "scatter"]
COLLECTIVES = ["allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", *EXCHANGES]


class Bench(Scratch):
    def setUp(self):
        super().setUp()
        subprocess.run([TERRACE, "plan", "cluster.yaml", "-o", "plan.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)

    def started(self, *words):
        return subprocess.run([*MPIRUN, "-np", str(RANKS), BENCH, *words], cwd=self.directory, text=True,
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL)

    def bench(self, *arguments, status=0, plan="plan.yaml"):
        words = ["--plan", plan, "--placement", "anywhere", *arguments] if plan else arguments
        done = self.started(*words)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout if status == 0 else done.stderr.split("-----")[0]  # mpirun's own text follows the dashes

    def measure(self, *arguments):
        text = self.bench(*arguments, "-n", "2", "-w", "1", "--json", "out.json")
        return text, json.loads((self.directory / "out.json").read_text())

    # Runs with the good plan's text after a replacement. Returns the messages of terrace-bench and terrace verify.
    def refused_plan(self, old, new):
        text = self.read("plan.yaml")
        self.assertIn(old, text)
        self.write("bad.yaml", text.replace(old, new, 1))
        done = subprocess.run([TERRACE, "verify", "bad.yaml"], cwd=self.directory, text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)
        return self.bench(plan="bad.yaml", status=2), done.stderr

    def test_calls_are_made_at_once_or_in_turn(self):
        for turns, how in ([], "at once (mpi: in turn)"), (["--in-turn"], "in turn"):
            text, found = self.measure("-b", "1K", "-e", "1K", "--async", "3", "--algorithms", "hierarchical,mpi",
                                       *turns)
            self.assertIn(f" of 3 calls {how}, after", text)
            self.assertEqual(found["in_turn"], bool(turns))
            self.assertEqual([(row["algorithm"], row["wrong"]) for row in found["results"]],
                             [("hierarchical", 0), ("mpi", 0)])

    def test_runs_over_ucx_without_rows_of_mpi(self):
        said = subprocess.run([TERRACE, "info", "--json"], text=True, capture_output=True, check=True)
        info = json.loads(said.stdout)
        there = {b["name"]: b["available"] for b in info["backends"]}
        if not there["ucx"] or not there["pmix"] or "openmpi" not in MPIRUN[0]:
            self.skipTest("no UCX, or no launcher with PMIx")
        text, found = self.measure("--transport", "ucx", "-b", "1K", "-e", "64K")
        self.assertIn("all results are exact", text)
        self.assertEqual(found["transport"], "ucx")
        self.assertNotIn("mpi", {row["algorithm"] for row in found["results"]})
        self.assertIn("hierarchical", {row["algorithm"] for row in found["results"]})

    def test_all_collectives(self):
        text, found = self.measure("--collective", "all", "-b", "1K", "-e", "4K")
        for what in COLLECTIVES:
            self.assertIn(f"# {what}: all results are exact.", text)
        self.assertEqual({row["collective"] for row in found["results"]}, set(COLLECTIVES))
        for row in found["results"]:
            with self.subTest(row=row):
                blocks = row["collective"] in ("reduce_scatter", "allgather", *EXCHANGES)
                self.assertEqual(row["bytes"], row["count"] * 4 * (RANKS if blocks else 1))
                self.assertIn(row["bytes"], (1024, 4096))
                factor = 0.75 if blocks else 1 if row["root"] is not None else 1.5
                self.assertAlmostEqual(row["busbw"], row["algbw"] * factor)
                self.assertEqual(row["wrong"], 0)
                self.assertEqual(row["iterations"], 2)
                times = [row["time_us" + part] for part in ("_min", "_p25", "", "_p75", "_p95", "_p99", "_max")]
                self.assertEqual(times, sorted(times))
                self.assertEqual(len(row["times_us"]), 2)
                for one, end in zip(sorted(row["times_us"]), ("_min", "_max")):
                    self.assertAlmostEqual(one, row["time_us" + end], places=2)
                if row["percent_steal_time"] is not None:
                    self.assertTrue(0 <= row["percent_steal_time"] <= 100)
                self.assertLessEqual(row["ratio_p25"], row["ratio"])
                if row["algorithm"] == found["reference"]:
                    self.assertEqual([row["ratio_p25"], row["ratio"], row["ratio_p75"]], [1, 1, 1])

    # Limits by docs/reference/cost-model.md, at the cluster file's rates. Its machine is one node, as is this machine.
    def test_percent_of_limit(self):
        self.write("node.yaml", "terrace_topology: 1\nname: node\n"
                   "levels: [{name: node, size: 4, fabric: shm, bandwidth: 10 MB/s, latency: 0.5 us}]\n")
        subprocess.run([TERRACE, "plan", "node.yaml", "-o", "node.plan.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)
        text = self.bench("--plan", "node.plan.yaml", "--collective", "all", "-b", "1M", "-e", "1M", "-n", "2",
                          "-w", "1", "--algorithms", "hierarchical", "--json", "out.json", plan=None)
        vectors = {"allreduce": 3 / 2, "reduce_scatter": 3 / 4, "allgather": 3 / 4, "broadcast": 1, "reduce": 1,
                   **dict.fromkeys(EXCHANGES, 3 / 4)}
        for row in json.loads(self.read("out.json"))["results"]:
            limit = vectors[row["collective"]] * row["bytes"] / 10e6
            self.assertAlmostEqual(row["percent_of_limit"], 100 * limit / (row["time_us"] * 1e-6), places=6)
        self.assertIn("# over 100 %limit: links carry more than the plan says", text)

    # With `--placement anywhere` the links between ranks are not those of the plan, so there is no limit.
    def test_no_percent_of_limit_elsewhere(self):
        text, found = self.measure("-b", "1M", "-e", "1M", "--algorithms", "hierarchical")
        self.assertEqual([row["percent_of_limit"] for row in found["results"]], [None])
        self.assertIn("not stated: ranks are placed anywhere", text)

    def test_tables(self):
        sizes = ["-b", "4K", "-e", "16K", "--algorithms", "hierarchical,flat-ring,two-level"]
        text, _ = self.measure(*sizes)
        rows = [line for line in text.splitlines() if line and not line.startswith("#")]
        self.assertLessEqual(max(map(len, rows)), 90)
        self.assertEqual(sum(line.startswith("*") for line in rows), 2)  # the best of each size
        for line in re.findall(r"# (?:4|16) KiB: .*", text):
            self.assertRegex(line, r"^# \d+ KiB: [a-z-]+ is fastest, [a-z-]+ takes \d+\.\d\d times as long;$")
        self.assertEqual(text.count("#   the plan runs node:2 "), 2)
        # The column and the closing lines have the same figure.
        ratio = re.search(r"^.\s+16384\s+flat-ring\s.*\s(\d+\.\d{3})\s+0$", text, re.M).group(1)
        self.assertIn(f"#   flat-ring takes {ratio} times as long", text)

    def test_training(self):
        self.write("tiny.model", "first, 5000, 0.5, 0.5\nsecond, 3000, 0.5, 1\nthird, 70000, 1, 1\n")
        text = self.bench("--training", "tiny.model", "--buckets", "0,16K,all,automatic", "--overlap", "on,off",
                          "--every", "2", "--slower", "2", "-n", "2", "-w", "5", "--json", "out.json")
        self.assertIn("training tiny, 3 gradients of float32, 0.3 MB", text)
        self.assertIn("# Computing is emulated: 9.00 ms an iteration, in which ranks wait and take no core.\n", text)
        self.assertIn("# all rows: algorithm hierarchical, every 2, communicators 1\n", text)
        self.assertIn("# all gradients are right\n", text)
        found = json.loads(self.read("out.json"))
        self.assertEqual([(row["bucket"], row["overlap"]) for row in found["results"]],
                         [(size, overlap) for overlap in (True, False) for size in ("0", "16 KiB", "all", "automatic")])
        self.assertEqual([row["buckets"] for row in found["results"]][:3], [3, 3, 1])
        for row in found["results"]:
            self.assertEqual(row["wrong"], 0)
            self.assertEqual(len(row["times_us"]), 2)
            self.assertGreaterEqual(row["time_us_min"], found["compute_us"])
            self.assertGreaterEqual(row["bound_us"], found["compute_us"])
        text = self.bench("--training", "tiny.model", "--buckets", "all", "-n", "1", "-w", "1", "--algorithms",
                          "hierarchical,sequential,staged,flat-ring,two-level,central")
        self.assertIn("# all gradients are right\n", text)
        text = self.bench("--training", "tiny.model", "--buckets", "all", "-n", "1", "-w", "1", "--error-feedback")
        self.assertNotIn("wire types", text)
        self.write("bad.model", "first, 5000\n")
        self.assertIn("bad.model:1:1: no layer; write: name", self.bench("--training", "bad.model", status=2))

    def test_files_are_replaced_by_force_alone(self):
        self.write("mine.txt", "notes of my own")
        self.assertIn("was not written by Terrace", self.bench("--json", "mine.txt", status=2))
        self.assertIn("this is the input", self.bench("--json", "plan.yaml", status=2))
        self.assertEqual(self.read("mine.txt"), "notes of my own")
        small = ["-b", "4K", "-e", "4K", "-n", "1", "-w", "1", "--algorithms", "hierarchical,flat-ring"]
        self.bench(*small, "--json", "mine.txt", "--force")
        self.bench(*small, "--json", "mine.txt")
        printed = self.started("--plan", "plan.yaml", "--placement", "anywhere", *small, "--json", "-")
        self.assertIn("results", json.loads(printed.stdout))
        self.assertIn("hierarchical", printed.stderr)
        self.assertFalse((self.directory / "-").exists())

    def test_what_takes_no_part_says_why(self):
        small = ["-b", "1K", "-e", "1K", "-o", "avg"]
        text, found = self.measure(*small, "--collective", "all", "-d", "bfloat16", "-r", "3")
        skipped = {(s["collective"], s["algorithm"]): s["why"] for s in found["skipped"]}
        self.assertEqual(set(skipped), {(what, "mpi") for what in COLLECTIVES} |
                         {(what, "central") for what in ("reduce_scatter", "allgather")} |
                         {(what, "staged") for what in ("broadcast", "reduce")})
        self.assertIn("# without mpi: MPI has no type bfloat16\n", text)
        self.assertIn("# reduce, root 3\n", text)
        self.assertRegex(text, "# without central: there is no baseline .central. of allgather")
        text, _ = self.measure(*small, "--algorithms", "hierarchical,mpi")
        self.assertIn("# without mpi: MPI has no operation avg\n", text)

    def test_a_plan_that_lacks_a_collective(self):
        text = (self.directory / "plan.yaml").read_text()
        (self.directory / "one.yaml").write_text(re.sub(r"(?s)\nreduce_scatter:.*", "\n", text))
        self.bench("-b", "8", "-e", "8", "-n", "1", "--algorithms", "hierarchical", plan="one.yaml")
        self.assertEqual(self.bench("--collective", "allreduce,reduce", plan="one.yaml", status=2),
                         "terrace-bench: one.yaml: the plan has no rules for reduce; plan again, or leave reduce out\n")

    def test_a_bad_plan_is_refused_as_by_terrace(self):
        for old, new in [("algorithm: ring", "algorithm: rong"), ("group: 2", "group: 3"),
                         ("mode: scatter", "mode: skip"), ("rules:", "rulers:")]:
            ours, theirs = self.refused_plan(old, new)
            self.assertEqual(ours, f"terrace-bench: {theirs}")
            self.assertRegex(theirs, r"^bad\.yaml:\d+:\d+: ")
        self.assertRegex(self.bench(plan="none.yaml", status=2), r"^terrace-bench: none\.yaml: ")

    def test_a_plan_for_other_ranks(self):
        (self.directory / "large.yaml").write_text(self.CLUSTER.replace("size: 2", "size: 3"))
        subprocess.run([TERRACE, "plan", "large.yaml", "-o", "large.plan.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)
        said = self.bench(plan="large.plan.yaml", status=2)
        self.assertRegex(said, r"^terrace-bench: large\.plan\.yaml: .*(9.*4|4.*9)")
        self.assertEqual(said.count("large.plan.yaml"), 1)

    # Writes the test's cluster file with the rates that are measured on this machine.
    def test_links(self):
        text = self.bench("--links", "--topology", "cluster.yaml", "--anywhere", "-o", "new.yaml", plan=None)
        for word in ("one pair", "all pairs", "bandwidth", "latency", "overhead", "reduction", "written: new.yaml"):
            self.assertIn(word, text)
        found = json.loads(subprocess.run([TERRACE, "topo", "new.yaml", "--json"], cwd=self.directory, check=True,
                                          text=True, capture_output=True).stdout)
        self.assertEqual((found["name"], found["ranks"], found["nodes"]), ("pair", RANKS, [2, 2]))
        self.assertGreater(found["reduction_bytes_per_s"], 0)
        for level in found["levels"]:
            self.assertEqual(level["assumed"], [])
            self.assertGreater(level["bandwidth_bytes_per_s"], 0)
            self.assertGreater(level["overhead_s"], 0)
            self.assertGreaterEqual(level["latency_s"], 0)
        subprocess.run([TERRACE, "plan", "new.yaml", "-o", "new.plan.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)

    # All ranks on this machine; by hand on several: tools/vcluster run -- build/bench/terrace-bench --detect
    def test_detect(self):
        text = self.bench("--detect", plan=None)
        self.assertIn("\nterrace_topology: 1\n", text)
        self.assertIn(f"size: {RANKS}, fabric: shm", text)
        self.assertIn("assumed: [bandwidth, latency, overhead]", text)
        text = self.bench("--detect", "--measure", "--name", "mine", "-o", "found.yaml", plan=None)
        for word in (f"mine: {RANKS} ranks in 1 node", "one pair", "written: found.yaml"):
            self.assertIn(word, text)
        found = json.loads(subprocess.run([TERRACE, "topo", "found.yaml", "--json"], cwd=self.directory, check=True,
                                          text=True, capture_output=True).stdout)
        self.assertEqual((found["ranks"], found["nodes"]), (RANKS, [RANKS]))
        self.assertEqual([level["assumed"] for level in found["levels"]], [[]])
        subprocess.run([TERRACE, "plan", "found.yaml", "-o", "found.plan.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)
        printed = self.started("--detect", "-o", "-")  # the report goes to standard error
        self.assertTrue(printed.stdout.startswith("# Found by terrace-bench"), printed.stdout)
        self.assertNotIn("written", printed.stdout)
        self.assertIn("Examples:", self.bench("--detect", "--help", plan=None))
        self.assertIn("cannot be written", self.bench("--detect", "-o", "no/x", plan=None, status=2))

    # All ranks are on this node; by hand on several: tools/vcluster run -- build/bench/terrace-bench --discover
    def test_discover(self):
        done = self.started("--discover", "--trust-hosts", "--name", "mine", "-o", "discovered.yaml")
        self.assertIn(done.returncode, (0, 3), done.stdout + done.stderr)  # 3: other tests make answers differ
        for word in ("All ranks are on one node", "written: discovered.yaml", f"probes of {RANKS} ranks"):
            self.assertIn(word, done.stdout)
        found = json.loads(subprocess.run([TERRACE, "topo", "discovered.yaml", "--json"], cwd=self.directory,
                                          check=True, text=True, capture_output=True).stdout)
        self.assertEqual((found["name"], found["ranks"], found["nodes"]), ("mine", RANKS, [RANKS]))
        subprocess.run([TERRACE, "plan", "discovered.yaml", "-o", "discovered.plan.yaml"], cwd=self.directory,
                       check=True, stdout=subprocess.DEVNULL)
        self.assertIn("Examples:", self.bench("--discover", "--help", plan=None))
        self.assertIn("cannot be written", self.bench("--discover", "-o", "no/x", plan=None, status=2))

    def test_links_refuses(self):
        links = ["--links", "--topology"]
        self.assertIn("Examples:", self.bench("--links", "--help", plan=None))
        self.assertRegex(self.bench(*links, "cluster.yaml", plan=None, status=2),
                         "^terrace-bench: cluster.yaml: ranks per node are 2 2, and 4 in the job; ")
        (self.directory / "six.yaml").write_text(self.CLUSTER.replace("size: 2", "size: 3", 1))
        self.assertRegex(self.bench(*links, "six.yaml", plan=None, status=2),
                         "^terrace-bench: six.yaml: 6 ranks, but 4 run; ")
        (self.directory / "bad.yaml").write_text(self.CLUSTER.replace("shm", "shn"))
        self.assertRegex(self.bench(*links, "bad.yaml", plan=None, status=2), "^terrace-bench: bad.yaml:4:[0-9]+: ")
        self.assertIn("cannot be written", self.bench(*links, "cluster.yaml", "-o", "no/x", plan=None, status=2))

    def test_ranks_that_another_launcher_leaves_alone_are_refused_once(self):
        said = []
        for rank in ["0", "1"]:
            done = subprocess.run([BENCH, "--plan", "plan.yaml"], cwd=self.directory, text=True, capture_output=True,
                                  timeout=120, stdin=subprocess.DEVNULL,
                                  env=dict(os.environ, SLURM_STEP_NUM_TASKS="2", SLURM_PROCID=rank))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            said.append(done.stderr)
        self.assertRegex(said[0],
                         r"^terrace-bench: the launcher started 2 processes, but .* finds 1: each runs alone\.")
        self.assertEqual(said[1], "")

    def test_usage(self):
        self.assertIn("Examples:", self.bench("--help", plan=None))
        self.assertRegex(self.bench("--version", plan=None), r"^terrace-bench \d+\.\d+\.\d+\n$")
        message = self.bench("--collective", "scan", status=2)
        self.assertEqual(message.count("terrace-bench: --collective: scan is none of"), 1)  # not once per rank
        self.bench("--collective", "All-Reduce", "-b", "8", "-e", "8", "-n", "1", "--algorithms", "hierarchical")
        self.assertIn("--root 4: there are 4 ranks", self.bench("-r", "4", "--collective", "reduce", status=2))
        self.assertRegex(self.bench("--lnks", status=2),
                         "^terrace-bench: there is no option --lnks; did you mean --links")
        with open("/dev/full", "w") as full:
            done = subprocess.run([BENCH, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "terrace-bench: standard output: cannot be written: No space left on device\n"))
        self.assertIn("nowhere/out.json: cannot be written", self.bench("--json", "nowhere/out.json", status=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

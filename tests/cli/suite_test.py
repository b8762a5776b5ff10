#!/usr/bin/env python3
"""tools/bench-suite, tools/predictions and tools/readme-table on this machine: their runs, merged results and output.
Asserts no time.

usage: suite_test.py SOURCE_ROOT TERRACE TERRACE_BENCH MPIRUN [MPIRUN_OPTION ...]
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from scratch import Scratch

ROOT, TERRACE, BENCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
MPIRUN = sys.argv[4:]
sys.path.insert(0, str(ROOT / "tools"))

import cluster_layout  # noqa: E402
import random_clusters  # noqa: E402
import rounds  # noqa: E402


class Tool(Scratch):
    def tool(self, name, *arguments, status=0):
        done = subprocess.run([ROOT / "tools" / name, *arguments], cwd=self.directory, text=True, timeout=280,
                              capture_output=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TERRACE": str(TERRACE), "TERRACE_BENCH": str(BENCH)})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn("is no variable of Terrace", done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr


class Suite(Tool):
    def suite(self, *arguments, status=0):
        return self.tool("bench-suite", *arguments, status=status)

    def test_whole(self):
        text = self.suite("cluster.yaml", "--launch", shlex.join(MPIRUN), "--bench-options", "--placement anywhere",
                          "-b", "1K", "-e", "4K", "-f", "4", "-n", "2", "-o", "out")
        out = self.directory / "out"
        merged = json.loads((out / "suite.json").read_text())
        self.assertEqual(merged["collective"], "allreduce")
        names = [run["name"] for run in merged["runs"]]
        self.assertEqual(names[0], "baselines")
        for number, run in enumerate(merged["runs"], 1):
            self.assertIn(shlex.join(run["command"]), text)  # every line it runs is printed
            self.assertEqual(run["found"], json.loads((out / f"run-{number}.json").read_text()))
            rows = run["found"]["results"]
            expected = {"hierarchical", "mpi"} | ({"sequential", "flat-ring", "two-level"} if number == 1 else set())
            self.assertEqual({row["algorithm"] for row in rows}, expected)
            self.assertEqual({row["wrong"] for row in rows}, {0})
        told = "".join(merged["left_out"])
        for peer in ("btl_tcp_flags 1", "its ring", "HAN + adapt"):
            self.assertTrue(peer in names or peer in told, peer)
        self.assertIn("measured / predicted", (out / "suite.html").read_text())
        table = (out / "suite.txt").read_text()
        self.assertIn(table, text)
        self.assertIn("Wrong elements in all results: 0.", table)
        for word in ("1 KiB", "4 KiB", "sequential", "flat-ring", "mpi"):
            self.assertIn(word, table)

    def test_nodes_with_several_nics(self):
        self.write("nics.yaml", self.CLUSTER.replace("bandwidth: 1 Gbit/s", "nics: {count: 2, bandwidth: 1 Gbit/s}"))
        self.assertIn("--nics names the script", self.suite("nics.yaml", "--launch", shlex.join(MPIRUN), status=2))
        text = self.suite("nics.yaml", "--launch", shlex.join(MPIRUN), "--nics", "env", "--rounds", "2",
                          "--bench-options", "--placement anywhere", "-b", "1K", "-e", "1K", "-n", "3", "-o", "out")
        runs = json.loads((self.directory / "out/suite.json").read_text())["runs"]
        self.assertEqual([run["name"] for run in runs[:2]], ["baselines", "mpi"])
        for run in runs:
            algorithms = [row["algorithm"] for row in run["found"]["results"]]
            own = run is runs[0]
            expected = ["hierarchical", "flat-rings", "two-level", "two-level-nics"] if own else ["mpi"]
            self.assertEqual(algorithms, expected)
            self.assertEqual("env" in run["command"], own)
            for row in run["found"]["results"]:  # iterations of both rounds: as many as the time limit allows
                self.assertEqual(row["iterations"], len(row["times_us"]))
                self.assertGreaterEqual(row["iterations"], 3)
                self.assertEqual(row["wrong"], 0)
        plans, mpi = runs[0]["found"]["results"][0], runs[1]["found"]["results"][0]
        self.assertAlmostEqual(mpi["ratio"], mpi["time_us"] / plans["time_us"])
        self.assertEqual(text.count("baselines, round "), 2)

    def test_refuses(self):
        self.assertRegex(self.suite("cluster.yaml", status=2), "where to run\\?|is up, not pair")
        self.assertIn("none.yaml", self.suite("none.yaml", "--emulate", status=2))
        self.assertIn("invalid choice", self.suite("cluster.yaml", "--collective", "scan", status=2))

    def test_help(self):
        self.assertIn("examples:", self.suite("--help"))


class Rounds(unittest.TestCase):
    @staticmethod
    def found(**times):
        """Returns terrace-bench's results of a run with these times [us] by algorithm."""
        return {"reference": "hierarchical", "results": [
            {"collective": "allreduce", "bytes": 8, "algorithm": name, "times_us": all_of, "time_us": all_of[0],
             "percent_of_limit": 50.0, "percent_of_goodput": None, "percent_of_bus": None, "algbw": 1.0, "busbw": 2.0,
             "wrong": 1, "percent_steal_time": 0.5 * len(all_of)} for name, all_of in times.items()]}

    def test_iterations_are_shared_out(self):
        self.assertEqual([rounds.parts(15, 3), rounds.parts(7, 3), rounds.parts(2, 3), rounds.parts(5, 1)],
                         [[5, 5, 5], [3, 2, 2], [1, 1], [5]])

    def test_rounds_merge_into_one_run(self):
        first = self.found(hierarchical=[10.0], mpi=[20.0])
        whole = rounds.merged([first, self.found(hierarchical=[30.0, 20.0], mpi=[30.0, 60.0])])
        own, mpi = whole["results"]
        self.assertEqual((own["time_us"], own["time_us_min"], own["time_us_max"], own["iterations"]), (20, 10, 30, 3))
        self.assertEqual((own["percent_of_limit"], own["busbw"], own["percent_of_goodput"]), (25, 1, None))
        self.assertEqual((own["wrong"], own["percent_steal_time"]), (2, 1))
        self.assertEqual((mpi["times_us"], mpi["ratio"]), ([20, 30, 60], 2))  # ratios 2, 1 and 3
        self.assertEqual((mpi["ratio_p25"], mpi["ratio_p75"]), (1.5, 2.5))
        self.assertIs(rounds.merged([first]), first)

    def test_a_run_without_the_plan_is_held_against_its_median(self):
        plans = self.found(hierarchical=[10.0])
        peer = rounds.merged([self.found(mpi=[10.0, 30.0]), self.found(mpi=[40.0])])
        row = rounds.against(peer, plans)["results"][0]
        self.assertEqual((row["ratio"], row["ratio_p25"], row["ratio_p75"]), (3, 2, 3.5))


class Predictions(Tool):
    def cases(self):
        return json.loads((self.directory / "out/predictions.json").read_text())["cases"]

    def test_whole(self):
        text = self.tool("predictions", "cluster.yaml", "--launch", shlex.join(MPIRUN), "--anywhere", "-b", "64K", "-e",
                         "128K", "-f", "2", "-n", "2", "-o", "out")
        out = self.directory / "out"
        found = self.cases()
        self.assertEqual([(c["cluster"], c["collective"], c["bytes"]) for c in found],
                         [("pair", "allreduce", b) for b in (65536, 131072)])
        bench = json.loads((out / "pair.default.json").read_text())["results"]
        runs = [(case["bytes"], run) for case in found for run in case["runs"]]
        self.assertEqual(len(runs), 2 * 4)
        for (size, run), row in zip(runs, bench):
            self.assertEqual((size, run["algorithm"]), (row["bytes"], row["algorithm"]))
            self.assertEqual(run["measured_s"], row["time_us"] / 1e6)
            self.assertEqual(run["wrong"], 0)
            said = json.loads(subprocess.run(
                [TERRACE, "simulate", out / "pair.plan.yaml", "--bytes", str(size), "--json",
                 *([] if run["algorithm"] == "hierarchical" else ["--algorithm", run["algorithm"]])],
                check=True, text=True, capture_output=True).stdout)
            for key in ("closed_form_s", "simulated_s", "shape"):
                self.assertEqual(run[key], said[key])
            self.assertEqual(run["shape"], row["shape"])  # the priced plan is the one that ran
        for word in ("pair", "64 KiB", "plan within 5 % of the best", "wrong elements in all results: 0"):
            self.assertIn(word, text)
            self.assertIn(word, (out / "predictions.md").read_text())
        again = self.tool("predictions", "cluster.yaml", "--compare", "-o", "out")  # without measuring
        self.assertEqual(self.cases(), found)
        self.assertNotIn("--links", again)

    def test_of_blocks(self):
        self.tool("predictions", "cluster.yaml", "--launch", shlex.join(MPIRUN), "--anywhere", "-b", "64K", "-e", "64K",
                  "-n", "2", "--collectives", "alltoall,gather", "-o", "out")
        self.assertEqual([(c["collective"], run["algorithm"], run["wrong"]) for c in self.cases() for run in c["runs"]],
                         [(c, a, 0) for c in ("alltoall", "gather") for a in ("hierarchical", "direct")])

    def test_of_blocks_with_lengths_of_their_own(self):
        self.tool("predictions", "cluster.yaml", "--launch", shlex.join(MPIRUN), "--anywhere", "-b", "64K", "-e", "64K",
                  "-n", "1", "--collectives", "gather", "--lengths", "own", "-o", "out")
        own, direct = self.cases()[0]["runs"]
        self.assertEqual([(run["algorithm"], run["wrong"]) for run in (own, direct)],
                         [("hierarchical", 0), ("direct", 0)])
        self.assertEqual(own["closed_form_s"], direct["closed_form_s"])
        bench = json.loads((self.directory / "out/pair.default.json").read_text())["results"]
        self.assertEqual({row["shape"] for row in bench}, {"direct, with lengths"})

    def test_candidates(self):
        text = self.tool("predictions", "cluster.yaml", "--candidates", "--launch", shlex.join(MPIRUN), "--anywhere",
                         "-b", "64K", "-e", "64K", "-n", "2", "--collectives", "allreduce,allgather", "-o", "out")
        found = self.cases()
        self.assertEqual([(c["cluster"], c["collective"], c["bytes"]) for c in found],
                         [("pair", what, 65536) for what in ("allreduce", "allgather")])
        others = {"mpi, ring", "mpi, HAN"} if shutil.which("ompi_info") else set()
        for case in found:
            ran = {run["algorithm"]: run for run in case["runs"]}
            self.assertEqual(set(ran), {"hierarchical", "staged", "flat-ring", "two-level", "mpi", *others,
                                        *(f"candidate-{place}" for place in range(1, 6))})
            def ratio(name):
                program = [ran[name][key] for key in ("shape", "lanes", "chunks")]
                return statistics.median(run["ratio"] for run in case["runs"] if run["algorithm"] == name or program[0]
                                         and [run[key] for key in ("shape", "lanes", "chunks")] == program)
            again = self.directory / f"out/pair.{case['collective']}-65536.default.json"
            self.assertEqual((case["times_best"] > 1.25, case["again"] is not None), (again.exists(), again.exists()))
            self.assertEqual(case["times_best"], ratio("hierarchical") / ratio(case["best"]))
            self.assertEqual(ratio(case["best"]), min(map(ratio, ran)))
            prices = [ran[f"candidate-{place}"]["closed_form_s"] for place in range(1, 6)]
            self.assertEqual(prices, sorted(prices))
            self.assertTrue(all(run["wrong"] == 0 for run in case["runs"]))
        for words in ("from 64 KiB on: ", " of 2 (", "wrong elements in all results: 0"):
            self.assertIn(words, text)
        again = self.tool("predictions", "cluster.yaml", "--candidates", "--compare", "--launch", "x", "-o", "out")
        self.assertNotIn("--links", again)
        self.assertEqual(self.cases(), found)

    def test_random_clusters(self):
        drawn = [random_clusters.cluster_text("c", 1, number) for number in range(40)]
        self.assertEqual(drawn[7], random_clusters.cluster_text("c", 1, 7))
        self.assertNotEqual(drawn[7], random_clusters.cluster_text("c", 2, 7))
        racks = unequal = 0
        for text in drawn:
            (self.directory / "drawn.yaml").write_text(text)
            said = json.loads(subprocess.run([TERRACE, "topo", self.directory / "drawn.yaml", "--json"], check=True,
                                             text=True, capture_output=True).stdout)
            self.assertTrue(3 <= said["ranks"] <= 12, text)
            rates = [level["bandwidth_bytes_per_s"] for level in said["levels"] if not level["node_level"]]
            self.assertLessEqual(8 * max(rates), cluster_layout.FILLED_BIT_RATE)
            racks += len(said["levels"]) == 3
            unequal += "bandwidths_bytes_per_s" in said["levels"][-1]
        self.assertTrue(8 <= racks <= 32 and 3 <= unequal <= 25, (racks, unequal))

    def test_refuses(self):
        self.assertIn("has no results", self.tool("predictions", "cluster.yaml", "--compare", status=2))
        self.assertIn("none.yaml", self.tool("predictions", "none.yaml", status=2))
        self.assertIn("examples:", self.tool("predictions", "--help"))


class ReadmeTable(Tool):
    def test_whole(self):
        text = self.tool("readme-table", "cluster.yaml", "--bytes", "64K", "-n", "2", "-o", "out", "--launch",
                         shlex.join(MPIRUN), "--bench-options", "--placement anywhere")
        table = (self.directory / "out/readme-table.md").read_text()
        self.assertIn(table, text)
        runs = {run["name"]: {row["algorithm"]: row for row in run["found"]["results"]}
                for run in json.loads((self.directory / "out/pair/suite.json").read_text())["runs"]}
        fastest = min(runs, key=lambda each: runs[each]["mpi"]["ratio"])
        self.assertIn(f"x, {'default' if fastest == 'baselines' else fastest}) |", table)
        ratio = runs["baselines"]["flat-ring"]["ratio"]
        self.assertRegex(table, rf"\| pair \| \*\*\d+ ms\*\* \| \d+ ms \({ratio:.2f}x\) \|")
        of_readme = re.search(r"^\| cluster \| plan.*\n", (ROOT / "README.md").read_text(), re.M)
        self.assertTrue(table.startswith(of_readme[0]), table)

    def test_refuses(self):
        self.assertIn("none.yaml", self.tool("readme-table", "none.yaml", "--launch", "mpirun", status=2))
        self.assertIn("examples:", self.tool("readme-table", "--help"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

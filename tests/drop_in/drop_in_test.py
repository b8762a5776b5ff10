#!/usr/bin/env python3
"""Unchanged MPI programs get the same results under the drop-in, and its report counts the calls of MPI and Terrace.

usage: drop_in_test.py PROGRAM SOLVER TERRACE LIBRARY RANKS MPIRUN [ARGUMENTS]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOLVER, TERRACE, LIBRARY, RANKS, *MPIRUN = sys.argv[1:]
MADE_AND_FREED = 1000 if "TERRACE_TEST_ALL" in os.environ else 400  # communicators
MPICH = "mpirun" not in os.path.basename(MPIRUN[0])
BLOCKING = ["allreduce", "reduce", "bcast", "allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block",
            "alltoall", "alltoallv", "gather", "scatter", "barrier"]
STARTED = [f"i{call}" for call in BLOCKING]


ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(tests="*", program=None, **variables):
    """Runs `program`, or the tests; under the drop-in if there are variables. Returns the completed process."""
    if variables:
        variables["LD_PRELOAD"] = LIBRARY
    passed_on = [word for name, value in variables.items()
                 for word in (["-env", name, value] if MPICH else ["-x", f"{name}={value}"])]
    command = program or [PROGRAM, f"--gtest_filter={tests}"]
    return subprocess.run([*MPIRUN, "-np", RANKS, *passed_on, *command], text=True, capture_output=True,
                          env=ENVIRONMENT)


class DropIn(unittest.TestCase):
    def passes(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[  PASSED  ]", done.stdout)
        return done

    def report(self, tests="*", **variables):
        """Runs the tests. Returns the rows of their report, by call, and the completed process."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.json"
            done = self.passes(run(tests, TERRACE_PMPI_REPORT=str(file), **variables))
            report = json.loads(file.read_text())
        self.assertEqual(report["terrace_report"], 1)
        self.assertEqual(report["ranks"], int(RANKS))
        rows = {}
        for row in report["rows"]:
            self.assertEqual(row["calls"], row["mpi_calls"] + row["terrace_calls"], row)
            rows.setdefault(row["call"], []).append(row)
        return rows, done

    def reasons(self, rows):
        """Returns the reasons for which MPI ran calls. A row has them as "operation 3, datatype 2"."""
        return {part.split(" ")[0] for of_call in rows.values() for row in of_call
                for part in row["passed"].split(", ") if part}

    def test_the_program_by_itself(self):
        # Open MPI 4.1 crashes if a communicator is freed before one of its calls is complete.
        self.passes(run("-*many_leave*:*outlive*"))

    def test_on_runs_all_calls_by_terrace(self):
        rows, _ = self.report("-*many_leave*", TERRACE_PMPI="on")
        by = {call: sum(row["terrace_calls"] for row in of_call) for call, of_call in rows.items()}
        calls = BLOCKING + ([] if MPICH else STARTED)
        if RANKS == "1":
            self.assertEqual({call: by[call] for call in calls}, dict.fromkeys(calls, 0))
        else:
            self.assertEqual([call for call in calls if by[call] == 0], [])
            self.assertTrue(any(row["algorithm"] for row in rows["allreduce"]))
        if MPICH:
            self.assertEqual(sum(by.get(call, 0) for call in STARTED), 0)

    def test_reasons_of_calls_that_pass(self):
        rows, _ = self.report("passed_on.*:reductions.*:invalid*", TERRACE_PMPI="on")
        reasons = self.reasons(rows)
        expected = {"one_rank"} if RANKS == "1" else {"operation", "datatype", "no_elements", "one_rank",
                                                       "intercommunicator"}
        expected |= set() if MPICH else {"invalid"}
        self.assertLessEqual(expected, reasons)

    def test_a_report_is_written_on_request(self):
        rows, _ = self.report("control.*", TERRACE_PMPI="on")
        self.assertEqual([row["calls"] for row in rows["allreduce"]], [3])  # the last call is in main()

    def test_rows_of_freed_communicators_are_one(self):
        if RANKS == ("3" if MPICH else "4"):
            self.skipTest("takes minutes; fewer ranks find the same")
        rows, _ = self.report("*many_leave*", TERRACE_PMPI="on")
        label = "0" if RANKS == "1" else f"0-{int(RANKS) - 1}"
        ours = [row for row in rows["allreduce"] if row["communicator"] == label]
        self.assertEqual([(row["communicators"], row["calls"]) for row in ours], [(MADE_AND_FREED, MADE_AND_FREED)])

    def test_auto_tries_both_and_says_so(self):
        rows, _ = self.report("reductions.*", TERRACE_PMPI="auto")
        tried = [row for row in rows["allreduce"] if row["chosen"]]
        if RANKS == "1":
            self.assertEqual(tried, [])
            return
        self.assertGreater(len(tried), 0)
        for row in tried:
            self.assertGreater(row["tried_mpi_seconds"], 0)
            self.assertGreater(row["tried_terrace_seconds"], 0)
            worth = 0.97 if row["bytes_from"] < 1 << 16 else 0.95 if row["bytes_from"] < 1 << 20 else 0.9
            faster = row["tried_terrace_seconds"] < worth * row["tried_mpi_seconds"]
            self.assertEqual(row["chosen"], "terrace" if faster else "mpi")
            self.assertLessEqual(row["trial_calls"], 20)

    def test_errors_go_to_the_communicators_handler(self):
        self.passes(run("deadline.*", TERRACE_PMPI="on", TERRACE_TIMEOUT="1"))

    def test_threads_have_communicators_of_their_own(self):
        for mode in ("on", "auto"):
            rows, done = self.report("threads.*", TERRACE_PMPI=mode, TERRACE_TEST_THREADS="1")
            if "MPI has one thread" in done.stdout:
                self.skipTest("this MPI has one thread")
            self.assertEqual(sum(row["calls"] for row in rows["bcast"]), 120)

    def test_off_passes_everything(self):
        rows, _ = self.report("moves.*", TERRACE_PMPI="off")
        self.assertEqual(self.reasons(rows), {"switched_off"})

    def test_calls_have_modes_of_their_own(self):
        rows, _ = self.report("moves.bcast:moves.allgather", TERRACE_PMPI="on", TERRACE_PMPI_BCAST="on:64K-,off")
        for row in rows["bcast"]:
            if row["ranks"] > 1 and row["bytes_from"] > 1:
                self.assertEqual(row["terrace_calls"] > 0, row["bytes_from"] >= 1 << 16, row)

    def test_a_solver_finds_the_same(self):
        def solved(**variables):
            done = run(program=[SOLVER, "40"], **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.rsplit(",", 1)[0]  # without its time
        self.assertRegex(solved(), "^[0-9]+ iterations, the middle is ")
        self.assertEqual(solved(TERRACE_PMPI="on"), solved())

    def test_terrace_run_prints_and_runs_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            command = [TERRACE, "run", "-n", RANKS, "--mode", "on", "--report", str(report), "--launcher",
                       " ".join(MPIRUN[1:]), "--", SOLVER, "30"]
            done = subprocess.run(command, text=True, capture_output=True, env=ENVIRONMENT)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("iterations", done.stdout)
            rows = json.loads(report.read_text())["rows"]
            self.assertIn("allgatherv", {row["call"] for row in rows})
            printed = subprocess.run([*command[:2], "--print", *command[2:]], text=True, capture_output=True,
                                     env=ENVIRONMENT)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        line = printed.stdout.splitlines()[0]
        self.assertIn(line, done.stderr)
        self.assertIn("libterrace-pmpi.so", line)
        self.assertTrue(line.endswith(f"{SOLVER} 30"), line)

    def test_terrace_run_asks_for_the_mpi(self):
        done = subprocess.run([TERRACE, "run", "--print", "--", "/bin/sh"], text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("add --mpi openmpi, --mpi mpich or --mpi mpiabi", done.stderr)

    def test_a_bad_value_switches_the_drop_in_off(self):
        done = self.passes(run("moves.bcast", TERRACE_PMPI="fast"))
        self.assertEqual(done.stderr.count('TERRACE_PMPI is "fast"; allowed: auto, on or off'), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + os.environ.get("CASES", "").split())

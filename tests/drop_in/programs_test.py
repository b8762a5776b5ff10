#!/usr/bin/env python3
"""Small programs in C, C++ and Fortran, compiled with an MPI's compilers, run without and with its drop-in.

usage: programs_test.py TERRACE MPI LIBRARY MPIRUN [ARGUMENTS]

MPI is openmpi, mpich or mpiabi, whose compilers are beside MPIRUN. A program checks its results and prints "wrong: 0".
A program without a compiler for its language is skipped.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TERRACE, MPI, LIBRARY, *MPIRUN = sys.argv[1:]
LIBRARY = pathlib.Path(LIBRARY).resolve()
SOURCES = pathlib.Path(__file__).resolve().parent / "programs"
RANKS = "2"
OF_FORTRAN = {"allreduce", "bcast", "allgather", "reduce"}
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def compiler_of(language):
    """Returns the path of the MPI's compiler wrapper; None if it, or gfortran for Fortran, is missing."""
    names = [f"{language}_abi"] if MPI == "mpiabi" else [f"{language}.{MPI}", language]
    wrapper = next(filter(None, (shutil.which(name, path=os.path.dirname(MPIRUN[0])) for name in names)), None)
    if wrapper is None or (language == "mpifort" and shutil.which("gfortran") is None):
        return None
    return wrapper


def can_start(program):
    """Returns whether the program's MPI polls the drop-in's functions, so Terrace can run nonblocking calls."""
    def said(*words):
        return subprocess.run([*words], text=True, check=True, stdout=subprocess.PIPE).stdout
    libraries = re.findall(r"=> (\S*/libmpi\S*)", said("ldd", program))
    return MPI == "openmpi" or " MPIX_Async_start" in said("nm", "-D", *libraries)


def is_open_mpi_4():
    words = [compiler_of("mpicc"), "-E", "-dM", "-x", "c", "-include", "mpi.h", "/dev/null"]
    said = subprocess.run(words, text=True, check=True, stdout=subprocess.PIPE).stdout
    return "#define OMPI_MAJOR_VERSION 4\n" in said


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compiled(self, source, *options):
        language = {".c": "mpicc", ".cpp": "mpicxx"}.get(pathlib.Path(source).suffix, "mpifort")
        compiler = compiler_of(language)
        if compiler is None:
            self.skipTest(f"{source}: no {language} of {MPI} here")
        program = self.folder / pathlib.Path(source).stem
        if language == "mpifort":  # without a module, gfortran compares the argument types of calls
            options += ("-fallow-argument-mismatch",)
        done = subprocess.run([compiler, str(SOURCES / source), "-o", str(program), "-O1", "-pthread", *options],
                              text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_program(self, program, *under, **variables):
        """Runs a program by the words of `under`. Returns its output; self.warnings gets its standard error."""
        words = [word for name, value in variables.items()
                 for word in (["-x", f"{name}={value}"] if MPI == "openmpi" else ["-env", name, str(value)])]
        done = subprocess.run([*MPIRUN, "-np", RANKS, *words, *under, str(program)], text=True, capture_output=True,
                              env=ENVIRONMENT, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.warnings = done.stderr
        return done.stdout.strip()

    def by_terrace(self, program, *under, **variables):
        """Runs under the drop-in. Returns how many calls Terrace ran, by name."""
        report = self.folder / "report.json"
        variables |= {"TERRACE_PMPI": "on", "TERRACE_PMPI_REPORT": report}
        self.assertEqual(self.run_program(program, *under, **variables), "wrong: 0")
        calls = {}
        for row in json.loads(report.read_text())["rows"]:
            calls[row["call"]] = calls.get(row["call"], 0) + row["terrace_calls"]
        return calls

    def check(self, source, expected, *options):
        """Runs a program without the drop-in, with trials, and by Terrace. Returns Terrace's calls of the last run."""
        program = self.compiled(source, *options)
        self.assertEqual(self.run_program(program), "wrong: 0")
        self.assertEqual(self.run_program(program, TERRACE_PMPI="auto", LD_PRELOAD=LIBRARY), "wrong: 0")
        calls = self.by_terrace(program, LD_PRELOAD=LIBRARY)
        self.assertLessEqual(expected, {call for call, count in calls.items() if count > 0})
        return calls

    def check_fortran(self, source, *options):
        calls = self.check(source, OF_FORTRAN, *options)
        self.assertEqual(calls["iallreduce"] > 0, can_start(self.folder / pathlib.Path(source).stem))

    def test_mpif_h(self):
        self.check_fortran("old.f")

    def test_use_mpi(self):
        self.check_fortran("by_module.F90")

    def test_use_mpi_f08(self):
        self.check_fortran("by_module.F90", "-DWITH_F08")

    def test_many_threads(self):
        calls = self.check("threads.c", {"allreduce", "bcast", "barrier"})
        self.assertEqual(calls["allreduce"], 4 * 50)

    def test_started_calls(self):
        calls = self.check("started.c", {"reduce", "barrier"})
        expected = 20 if can_start(self.folder / "started") else 0
        self.assertEqual((calls["iallreduce"], calls["ibcast"]), (expected, expected))
        rows = json.loads((self.folder / "report.json").read_text())["rows"]
        self.assertEqual({row["passed"] for row in rows if row["call"] in ("iallreduce", "ibcast")},
                         {"" if expected else "unsupported 20"})

    def test_a_rank_may_be_an_hour_late(self):
        program = self.compiled("late.c", "-rdynamic")
        calls = self.by_terrace(program, LD_PRELOAD=LIBRARY, AN_HOUR=self.folder / "an_hour")
        self.assertEqual(calls, {"barrier": 4})

    def test_calls_that_mpi_runs_are_in_the_report(self):
        self.by_terrace(self.compiled("passed.c"), LD_PRELOAD=LIBRARY)
        rows = json.loads((self.folder / "report.json").read_text())["rows"]
        self.assertEqual({row["call"]: row["passed"] for row in rows if row["terrace_calls"] == 0},
                         dict.fromkeys(["gatherv", "scatterv", "alltoallw", "scan", "exscan", "iscan",
                                        "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall",
                                        "neighbor_alltoallv", "neighbor_alltoallw"], "unsupported 1"))
        self.assertGreater(min(row["mpi_seconds"] for row in rows if row["mpi_calls"] > 0), 0)

    def test_persistent_calls_are_in_the_report(self):
        if is_open_mpi_4():
            self.skipTest("Open MPI 4 has no persistent collectives")
        self.by_terrace(self.compiled("persistent.c"), LD_PRELOAD=LIBRARY)
        rows = json.loads((self.folder / "report.json").read_text())["rows"]
        rows = {row["call"]: row for row in rows if row["call"].endswith("_init")}
        self.assertEqual({call: (row["mpi_calls"], row["bytes"], row["passed"]) for call, row in rows.items()},
                         {"allreduce_init": (3, 12, "unsupported 3"), "scan_init": (3, None, "unsupported 3")})
        self.assertGreater(min(row["seconds"] for row in rows.values()), 0)

    def test_large_counts(self):
        if MPI == "openmpi":
            self.skipTest("Open MPI 4 and 5 have no functions for large counts")
        calls = self.check("large_counts.c", set())
        twice = {"allreduce", "reduce", "bcast", "allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block",
                 "alltoall", "alltoallv", "gather", "scatter"}
        more = {"reduce": 1}  # sums the numbers of wrong results
        self.assertEqual({call: calls.get(call) for call in twice},
                         {call: 2 + more.get(call, 0) for call in twice})

    # Code that runs in the destructor must not use destroyed objects. Valgrind detects such reads.
    def test_a_static_object_that_ends_mpi(self):
        calls = self.check("static_session.cpp", {"allreduce"})
        self.assertEqual(calls, {"allreduce": 12, "bcast": 0}, "no communicator is made any more")
        if MPI != "openmpi" or shutil.which("valgrind") is None:
            self.skipTest("a static object that ends MPI, under valgrind: over Open MPI where valgrind is installed")
        log = self.folder / "valgrind"
        self.by_terrace(self.folder / "static_session", "valgrind", "-q", f"--log-file={log}.%p", LD_PRELOAD=LIBRARY)
        found = [line for file in self.folder.glob("valgrind.*") for line in file.read_text().splitlines()]
        self.assertFalse([line for line in found if "terrace::" in line], "\n".join(found))

    def test_a_damaged_report(self):
        program = self.compiled("damaged_gather.c", "-rdynamic")
        report = self.folder / "report.json"
        self.assertEqual(self.run_program(program, TERRACE_PMPI="on", TERRACE_PMPI_REPORT=report, LD_PRELOAD=LIBRARY),
                         "wrong: 0")
        self.assertIn("terrace: warn: there is no report: ", self.warnings)
        self.assertFalse(report.exists())

    def test_terrace_run_finds_the_library(self):
        path = os.pathsep.join([os.path.dirname(MPIRUN[0]), os.environ["PATH"]])
        line = subprocess.run([TERRACE, "run", "--print", "--", str(self.compiled("threads.c"))], text=True, check=True,
                              stdout=subprocess.PIPE, env=ENVIRONMENT | {"PATH": path}).stdout
        self.assertIn(str(LIBRARY), line)

    def test_a_program_that_is_linked_with_the_drop_in(self):
        folder = LIBRARY.parent
        program = self.compiled("linked.c", f"-L{folder}", "-lterrace-pmpi", f"-Wl,-rpath,{folder}")
        calls = self.by_terrace(program)
        self.assertEqual(calls, {"allreduce": 1, "reduce": 1})


if __name__ == "__main__":
    tests = unittest.main(argv=sys.argv[:1] + os.environ.get("CASES", "").split(), exit=False).result
    for _, why in tests.skipped:
        print(f"left out: {why}")
    sys.exit(0 if tests.wasSuccessful() else 1)

#!/usr/bin/env python3
"""Runs programs that know nothing of Terrace, by themselves and under the drop-in, and compares what they say.

A client runs if it is installed; the others are named with what they need. A run counts as equal if the exit status and
what the client itself calls its result are: a residual, a table, the tests that passed. Times are of one run each.

Exit codes: 0 every client that ran says the same, 1 one does not, 2 bad usage.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Callable

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE = 600  # [s] of one run


@dataclasses.dataclass
class Run:
    words: list
    name: str = ""  # if the client has several runs
    ranks: int = 0  # 0: the value of --ranks


@dataclasses.dataclass
class Client:
    name: str
    needs: str  # how to install it
    runs: Callable  # (options) -> runs, none if it is missing
    result: Callable  # (output) -> results, which must be equal
    mpi: str = "openmpi"  # or mpich, mpiabi, intel
    files: dict = dataclasses.field(default_factory=dict)  # input files of its folder


def lines(pattern):
    """A result: all that the pattern finds, without times."""
    return lambda output: re.findall(pattern, output, re.M)


def installed(program, *arguments):
    return lambda options: [Run([found, *arguments])] if (found := shutil.which(program)) else []


def at(file, *arguments):
    return lambda options: [Run([str(file), *arguments])] if os.access(file, os.X_OK) else []


def of_build(program, *arguments):
    return lambda options: at(options.build / program, *arguments)(options)


def has_mpi4py():
    return subprocess.run([sys.executable, "-c", "import mpi4py"], capture_output=True).returncode == 0


def mpi4py(options):
    tests = pathlib.Path(os.environ.get("MPI4PY_TESTS", "/nonexistent")) / "main.py"
    names = ["test_cco_buf", "test_cco_vec", "test_cco_obj", "test_cco_nb_buf", "test_cco_nb_vec", "test_attributes",
             "test_grequest"]
    return [Run([sys.executable, str(tests), "-q", *names], ranks=3)] if tests.exists() and has_mpi4py() else []


def optimiser_step(options):
    example = ROOT / "docs/examples/optimiser_step.py"
    return [Run([sys.executable, str(example), "--scale", "16"])] if has_mpi4py() else []


def mpich_tests(variable):
    """Those of MPICH's list that are built: one run for each line "allred 4 arg=-count=10"."""
    def runs(options):
        folder = pathlib.Path(os.environ.get(variable, "/nonexistent"))
        found = []
        for line in (folder / "testlist").read_text().splitlines() if (folder / "testlist").exists() else []:
            name, _, rest = line.partition(" ")
            words = rest.split()
            if not name.isidentifier() or not words or not os.access(folder / name, os.X_OK):
                continue
            arguments = [word[len("arg="):] for word in words[1:] if word.startswith("arg=")]
            ranks = min(int(words[0]), options.most_ranks)
            run = Run([str(folder / name), *arguments], " ".join([name, str(ranks), *arguments]), ranks)
            if run not in found:
                found.append(run)
        return found
    return runs


LENNARD_JONES = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
thermo 20
run 100
"""

SILICON = """tasks
  0

avec
  5.13  5.13  0.00
  5.13  0.00  5.13
  0.00  5.13  5.13

sppath
  '/usr/share/elk-lapw/species/'

atoms
  1
  'Si.in'
  2
  0.0  0.0  0.0
  0.25 0.25 0.25

ngridk
  2  2  2

maxscl
  8
"""

INTEL = pathlib.Path(os.environ.get("INTEL_MPI", "/nonexistent"))
INTEL_VARIABLES = {"I_MPI_ROOT": str(INTEL), "I_MPI_FABRICS": "shm", "I_MPI_HYDRA_BOOTSTRAP": "fork",
                   "LD_LIBRARY_PATH": f"{INTEL}/lib:{INTEL}/opt/mpi/libfabric/lib"}
MUMPS = pathlib.Path(os.environ.get("MUMPS_TESTS", "/usr/lib/mumps"))
COLLECTIVES = ["Allreduce", "Bcast", "Allgather", "Allgatherv", "Reduce", "Reduce_scatter", "Alltoall", "Alltoallv",
               "Gather", "Scatter", "Barrier"]
STARTED = ["Iallreduce", "Ibcast", "Iallgather", "Ireduce", "Ialltoall", "Ialltoallv", "Igather", "Iscatter",
           "Ibarrier"]
SIZES = ["-npmin", "4", "-msglog", "4:16"]
# Rows of IMB: bytes, calls and last column. With checks the last column is the share of wrong elements.
IMB_ROWS = r"^# Benchmarking +(\w+)|^ +(\d+) +(\d+) .*? ([\d.]+)$"


def imb_result(output):
    """Which tables there are, their sizes, and what checks found; the last column is a time without checks."""
    has_checks = "defects" in output
    return [(call, size, count, last if has_checks else "") for call, size, count, last in
            re.findall(IMB_ROWS, output, re.M)]


CLIENTS = [
    Client("conjugate_gradient", "a build: ninja -C build", of_build("docs/examples/conjugate_gradient", "200"),
           lines(r"^\d+ iterations, the middle is [\d.]+")),
    Client("optimiser_step", "pip install mpi4py numpy", optimiser_step, lines(r"^\d+ arrays.*sum.*$")),
    Client("mpi4py", "pip install mpi4py, and MPI4PY_TESTS=the folder test of its sources", mpi4py,
           lines(r"^(?:Ran \d+ tests|OK.*|FAILED.*)")),
    Client("IMB-MPI1", "IMB-MPI1 on the path, built with CFLAGS=-DCHECK",
           installed("IMB-MPI1", *SIZES, "-iter", "20", *COLLECTIVES), imb_result),
    Client("IMB-NBC", "IMB-NBC on the path, built with CFLAGS=-DCHECK",
           installed("IMB-NBC", *SIZES, "-iter", "10", *STARTED), imb_result),
    Client("IMB-MPI1-intel", "INTEL_MPI=the folder data of the wheel impi-rt: its bin/IMB-MPI1 under Intel MPI",
           at(INTEL / "bin/IMB-MPI1", *SIZES, "-iter", "20", "-check", "all", *COLLECTIVES), imb_result, mpi="intel"),
    Client("lammps", "apt-get install lammps", installed("lmp", "-in", "in.lj", "-log", "none"),
           lines(r"^ +\d+ +[-\d.]+ +[-\d.]+ +[-\d.]+.*$"), files={"in.lj": LENNARD_JONES}),
    Client("elk", "apt-get install elk-lapw", installed("sh", "-c", "elk-lapw && test \"${OMPI_COMM_WORLD_RANK}\" != 0 "
                                                        "|| cat TOTENERGY.OUT") if shutil.which("elk-lapw") else
           lambda options: [], lines(r"^ +-[\d.]+ *$"), files={"elk.in": SILICON}),
    Client("mumps", "apt-get install mumps-test, or MUMPS_TESTS=the folder of dsimpletest",
           at(MUMPS / "dsimpletest"), lines(r"^ +Solution is.*$|^ +[\d.E+-]+ +[\d.E+-]+.*$"),
           files={"input": MUMPS / "input_simpletest_real"}),
    Client("mpich-coll", "MPICH_TESTS=test/mpi/coll of MPICH's sources, built with Open MPI (docs/measurements/drop-in.md)",
           mpich_tests("MPICH_TESTS"), lines(r"No Errors")),
    Client("mpich-coll-mpich", "MPICH_TESTS_OF_MPICH=the same, built with MPICH", mpich_tests("MPICH_TESTS_OF_MPICH"),
           lines(r"No Errors"), mpi="mpich"),
]


def launcher(client, ranks, variables):
    if client.mpi != "openmpi":
        options = [word for name, value in variables.items() for word in ("-genv", name, value)]
        program = {"intel": str(INTEL / "bin/mpiexec"), "mpiabi": "mpiexec.hydra"}.get(
            client.mpi, shutil.which("mpirun.mpich") or "mpirun")
        return [program, "-np", str(ranks), *options]
    options = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    return [shutil.which("mpirun.openmpi") or "mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks),
            *options]


def run_once(options, client, run, variables):
    """What one run says: (status, seconds, result)."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1",
                   **(INTEL_VARIABLES if client.mpi == "intel" else {})}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in client.files.items():
            (pathlib.Path(folder) / name).write_text(text.read_text() if isinstance(text, pathlib.Path) else text)
        given = pathlib.Path(folder) / "input"
        begin = time.monotonic()
        with open(given if given.exists() else os.devnull) as stdin:
            try:
                done = subprocess.run([*launcher(client, run.ranks or options.ranks, variables), *run.words],
                                      cwd=folder, text=True, capture_output=True, env=environment, stdin=stdin,
                                      timeout=options.deadline, errors="replace")
            except subprocess.TimeoutExpired:
                return "no end", time.monotonic() - begin, []
    return done.returncode, time.monotonic() - begin, client.result(done.stdout + done.stderr)


def calls_in(report):
    """How many calls of rank 0 MPI and Terrace ran, as a report says; not those of other ranks' communicators."""
    try:
        rows = json.loads(report.read_text())["rows"]
    except (OSError, ValueError):
        return 0, 0
    return sum(row["mpi_calls"] for row in rows), sum(row["terrace_calls"] for row in rows)


def compare(options, client):
    """Prints a line for a client, and one for each of its runs that says something else. Returns False if one does."""
    runs = client.runs(options)
    if not runs:
        print(f"{client.name:<20} not installed: {client.needs}", flush=True)
        return True
    library = options.build / "pmpi" / ("mpich" if client.mpi == "intel" else client.mpi) / "libterrace-pmpi.so"
    seconds, results, failed_before, calls, different = [0.0, 0.0], 0, 0, [0, 0], []
    for number, run in enumerate(runs):
        report = options.reports.resolve() / f"{client.name}{f'-{number}' if len(runs) > 1 else ''}.json"
        report.unlink(missing_ok=True)
        variables = {"LD_PRELOAD": str(library), "TERRACE_PMPI": options.mode, "TERRACE_PMPI_REPORT": str(report)}
        status, took, expected = run_once(options, client, run, {})
        status_with, took_with, found = run_once(options, client, run, variables)
        seconds = [seconds[0] + took, seconds[1] + took_with]
        results += len(expected)
        calls = [sum(pair) for pair in zip(calls, calls_in(report))]
        failed_before += status != 0
        # In a client of many runs, a run that fails without the drop-in is not compared.
        same = status == status_with == 0 and expected == found and expected
        if not same and (status == 0 or len(runs) == 1):
            different.append(f"    {run.name or 'the run'}: status {status} and {status_with}, {len(expected)} and "
                             f"{len(found)} results")
    said = f"{len(runs)} runs, {failed_before} fail by themselves" if len(runs) > 1 else f"{results} results"
    print(f"{client.name:<20} {'DIFFERS' if different else 'same'}, {said}, without {seconds[0]:.1f} s, with "
          f"{seconds[1]:.1f} s, calls of MPI {calls[0]}, of Terrace {calls[1]}", *different, sep="\n", flush=True)
    return not different


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[2])
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--most-ranks", type=int, default=5, help="of a test of MPICH's that wants more")
    parser.add_argument("--deadline", type=float, default=DEADLINE, help="[s] of one run")
    parser.add_argument("--mode", choices=["auto", "on", "off"], default="auto")
    parser.add_argument("--mpi", help="that all clients are built with, if not their own: mpiabi")
    parser.add_argument("--reports", type=pathlib.Path, help="folder for reports; without it none is kept")
    parser.add_argument("--list", action="store_true", help="name all clients and run none")
    parser.add_argument("clients", nargs="*", metavar="CLIENT")
    options = parser.parse_args()
    chosen = [dataclasses.replace(c, mpi=options.mpi or c.mpi)
              for c in CLIENTS if not options.clients or c.name in options.clients]
    if unknown := set(options.clients) - {c.name for c in CLIENTS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.list:
        for client in chosen:
            print(f"{client.name:<20} {'installed' if client.runs(options) else f'not installed: {client.needs}'}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        options.reports = options.reports or pathlib.Path(folder)
        options.reports.mkdir(parents=True, exist_ok=True)
        return 0 if all([compare(options, c) for c in chosen]) else 1


sys.exit(main())

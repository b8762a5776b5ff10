#!/usr/bin/env python3
"""Programs under srun, with real Slurm on this machine (tools/slurm-cluster), on one to four nodes.

usage: slurm_test.py SOURCE_ROOT BUILD_ROOT

Requires TERRACE_TEST_ALL=1, root, and an installed Slurm; otherwise it is skipped, with exit status 77.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, BUILD = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
del sys.argv[1:]
TOOL = str(ROOT / "tools/slurm-cluster")
EXAMPLES = BUILD / "docs/examples"
# Without variables TERRACE_TEST_*, since programs warn of unknown variables TERRACE_*.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("TERRACE_TEST_")},
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TERRACE_TIMEOUT": "60"}
PYTHON = {"PYTHONPATH": str(ROOT / "python/src"), "LIBTERRACE": str(next(BUILD.glob("lib/api/libterrace.so.?.?.?"), "")),
          "LD_LIBRARY_PATH": str(BUILD / "torch/stubs")}
INSTALLED = BUILD / "torch/bin/python"  # by tools/pytorch


def srun(*words, **more):
    """Runs a job step. Returns its output."""
    done = subprocess.run([TOOL, "run", "--", "srun", "--mpi=pmix", *map(str, words)], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, env={**ENVIRONMENT, **more})
    return done.stdout


def process_of(program, rank):
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or has no program file
            if (os.readlink(process / "exe") == str(program) and
                    f"SLURM_PROCID={rank}" in (process / "environ").read_text().split("\0")):
                return int(process.name)
    raise AssertionError(f"no process is rank {rank} of {program}")


class Slurm(unittest.TestCase):
    def test_ranks_without_mpi_on_one_to_four_nodes(self):
        for nodes in range(1, 5):
            with self.subTest(nodes):
                self.assertIn(f"{2 * nodes} ranks: {2 * nodes}\n",
                              srun(f"-N{nodes}", f"-n{2 * nodes}", EXAMPLES / "without_mpi"))

    def test_parts_and_a_second_communicator(self):
        program = ("import array, terrace\n"
                   "for turn in range(2):\n"
                   "    with terrace.create() as comm, comm.split(comm.rank % 2) as part:\n"
                   "        data = array.array('i', [comm.rank])\n"
                   "        part.allreduce(data)\n"
                   "        print(part.size, data[0], sum(range(comm.rank % 2, comm.size, 2)))\n")
        said = srun("-N4", "-n8", sys.executable, "-c", program, **PYTHON)
        self.assertEqual(sorted(said.splitlines()), ["4 12 12"] * 8 + ["4 16 16"] * 8)

    def test_others_go_on_when_a_rank_is_killed(self):
        step = subprocess.Popen([TOOL, "run", "--", "srun", "--mpi=pmix", "-N4", "-n8", EXAMPLES / "survive", "2500"],
                                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=ENVIRONMENT)
        self.addCleanup(step.stdout.close)
        first = step.stdout.readline()
        self.assertEqual(first, "8 ranks train\n")
        time.sleep(1)
        os.kill(process_of(EXAMPLES / "survive", 7), signal.SIGKILL)
        said, _ = step.communicate(timeout=120)
        self.assertRegex(said, r"rank 7 on n3 has died")
        self.assertIn("7 ranks, 2500 steps: 3.000000\n", said)

    def test_programs_over_open_mpi(self):
        said = srun("-N4", "-n4", EXAMPLES / "allreduce")
        self.assertEqual(sorted(said.splitlines()), [f"rank {rank} of 4: 4" for rank in range(4)])

    def test_the_drop_in(self):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            srun("-N4", "-n4", "env", f"LD_PRELOAD={BUILD}/pmpi/openmpi/libterrace-pmpi.so", EXAMPLES / "conjugate_gradient",
                 TERRACE_PMPI="on", TERRACE_PMPI_REPORT=str(report))
            self.assertIn('"terrace"', report.read_text())

    def test_torch_in_the_place_of_torchrun(self):
        python = str(INSTALLED if INSTALLED.exists() else sys.executable)
        if subprocess.run([python, "-c", "import torch"], env={**os.environ, **PYTHON}, capture_output=True).returncode != 0:
            self.skipTest("torch is not installed (tools/pytorch does)")
        program = ("import terrace.torch, torch, torch.distributed as dist\n"
                   "dist.init_process_group('terrace')\n"
                   "dist.all_reduce(data := torch.ones(2))\n"
                   "print(dist.get_rank(), data.tolist())\n")
        task = f"RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID exec {python} -c \"$0\""
        said = srun("-N4", "-n8", "sh", "-c", task, program, MASTER_ADDR="n0", MASTER_PORT="29500",
                    TORCH_CPP_LOG_LEVEL="ERROR", **PYTHON)
        self.assertEqual(sorted(said.splitlines()), [f"{rank} [8.0, 8.0]" for rank in range(8)])

    def test_ranks_start_where_an_exported_order_says(self):
        hosts = ["n2", "n2", "n0", "n3", "n1", "n1", "n1"]
        with tempfile.TemporaryDirectory() as folder:
            machine, plan, order = (pathlib.Path(folder, name) for name in ("m.yaml", "m.plan.yaml", "hosts"))
            machine.write_text("terrace_topology: 1\nname: named\nlevels:\n"
                               "  - {name: node, fabric: shm, hosts: 'n2,n0,n3,n1'}\n"
                               "  - {name: cluster, fabric: ethernet}\ntree: [2, 1, 1, 3]\n")
            for words in (["plan", machine, "-o", plan], ["export", plan, "--to", "slurm", "-o", order]):
                subprocess.run([BUILD / "tools/terrace", *words], check=True, stdout=subprocess.DEVNULL)
            said = srun("-N4", "-n7", "--overcommit", "--distribution=arbitrary", "sh", "-c", "echo $SLURM_PROCID $(hostname)",
                        SLURM_HOSTFILE=str(order))
        self.assertEqual(sorted(said.splitlines()), [f"{rank} {host}" for rank, host in enumerate(hosts)])

    def test_the_bench(self):
        said = srun("-N4", "-n8", BUILD / "bench/terrace-bench", "--detect", "-o", "-")
        self.assertIn("terrace_topology: 1\n", said)
        self.assertIn("# Levels above nodes: leaf, spine by the job's addresses, rates assumed.\n", said)

    def test_plans_made_at_creation_have_the_switches_that_slurm_tells(self):
        self.assertIn("leaf, spine by the job's addresses, rates assumed\", 8 ranks (2 x 2 x 2)",
                      srun("-N4", "-n8", EXAMPLES / "without_mpi", TERRACE_LOG="info"))


if __name__ == "__main__":
    if "TERRACE_TEST_ALL" not in os.environ:
        print("left out: real Slurm (TERRACE_TEST_ALL=1)")
        sys.exit(77)
    began = subprocess.run([TOOL, "up"], text=True, capture_output=True)
    if began.returncode == 77:
        print(f"left out: {began.stderr.strip()}")
        sys.exit(77)
    if began.returncode != 0:
        sys.exit(began.stderr)
    try:
        unittest.main(verbosity=2)
    finally:
        subprocess.run([TOOL, "down"], check=True)

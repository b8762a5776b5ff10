#!/usr/bin/env python3
"""terrace-bench --device cuda as a user runs it, on the stand-in: host memory instead of GPUs, MPI instead of NCCL
(tests/support/gpu_module.cpp). Shows nothing about a GPU, and asserts no time.

usage: device_bench_test.py TERRACE TERRACE_BENCH MODULE MPIRUN [MPIRUN_OPTION ...]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from scratch import Scratch

TERRACE, BENCH, MODULE = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
MPIRUN = sys.argv[4:]
RANKS = 4
# Gives each rank another host name for NCCL, which allows all ranks to share the device.
OWN_HOST = '[ "${OWN_HOSTS-all}" = all ] && export NCCL_HOSTID=${OMPI_COMM_WORLD_RANK-$PMI_RANK}; exec "$0" "$@"'
EXCHANGES = ["alltoall", "gather", "scatter"]
BASELINES = {"hierarchical", "flat-ring", "two-level", "nccl"}


class DeviceBench(Scratch):
    def setUp(self):
        super().setUp()
        subprocess.run([TERRACE, "plan", "cluster.yaml", "-o", "plan.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)

    def bench(self, *arguments, status=0, module=MODULE, **environment):
        plan = [] if "--links" in arguments else ["--plan", "plan.yaml", "--placement", "anywhere", "--device", "cuda"]
        words = [*plan, *arguments]
        done = subprocess.run([*MPIRUN, "-np", str(RANKS), "sh", "-c", OWN_HOST, BENCH, *words], cwd=self.directory,
                              text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TERRACE_GPU_MODULE": str(module), **environment})
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout if status != 2 else done.stderr.split("-----")[0]

    def measure(self, *arguments, **how):
        text = self.bench(*arguments, "-n", "2", "-w", "2", "--json", "out.json", **how)
        return text, json.loads(self.read("out.json"))

    def test_all_collectives(self):
        text, found = self.measure("--collective", "all", "-b", "4K", "-e", "64K", "-f", "16", "-r", "1",
                                   "--algorithms", ",".join(BASELINES))
        self.assertIn("stand-in (memory of the host, no GPU)", found["device"])
        self.assertEqual((found["ranks_per_device"], found["bus"]), (RANKS, None))
        self.assertIn("4 ranks share a device", text)
        self.assertEqual({(s["collective"], s["algorithm"]) for s in found["skipped"]},
                         {(c, a) for c in EXCHANGES for a in ("flat-ring", "two-level")})
        self.assertEqual({(r["collective"], r["algorithm"], r["bytes"]) for r in found["results"]},
                         {(c, a, b)
                          for c in ("allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", *EXCHANGES)
                          for a in BASELINES for b in (4096, 65536)
                          if c not in EXCHANGES or a in ("hierarchical", "nccl")})
        self.assertEqual({(r["wrong"], r["percent_of_bus"]) for r in found["results"]}, {(0, None)})
        for row in found["results"]:
            self.assertGreater(row["time_us"], 0)
            self.assertIsNone(row["percent_of_limit"])  # placed anywhere: the links are not the plan's

    def test_what_nccl_has_not(self):
        text, found = self.measure("-b", "1K", "-e", "1K", "-d", "int16", "-o", "avg",
                                   "--algorithms", "hierarchical,nccl")
        self.assertEqual({s["algorithm"]: s["why"] for s in found["skipped"]}, {"nccl": "NCCL has no type int16"})
        self.assertIn("# allreduce: all results are exact.", text)
        _, found = self.measure("-b", "1K", "-e", "1K", "-o", "avg", "--algorithms", "hierarchical,nccl")
        self.assertIn("operation avg", found["skipped"][0]["why"])

    # Each row captures a graph with its own buffers and count.
    def test_graphs(self):
        text, found = self.measure("-b", "1K", "-e", "256K", "-f", "16", "--graph", "--async", "2", "--algorithms",
                                   ",".join(BASELINES))
        self.assertTrue(found["graph"])
        self.assertIn("replayed from graphs", text)
        self.assertEqual({r["wrong"] for r in found["results"]}, {0})
        self.assertEqual({r["bytes"] for r in found["results"]}, {1 << 10, 1 << 14, 1 << 18})

    def test_staging(self):
        text, found = self.measure("-b", "4K", "-e", "64K", "-f", "16", "--staging", "--collective", "all",
                                   "--algorithms", "hierarchical,nccl")
        self.assertIn("# %bus      the same of copies between device and host: ", text)
        self.assertEqual(set(found["bus"]), {"from_device", "to_device", "both"})
        for row in found["results"]:
            with self.subTest(row=row):
                self.assertEqual(row["wrong"], 0)
                self.assertEqual(row["percent_of_bus"] is None, row["algorithm"] == "nccl")
        row = next(r for r in found["results"] if r["collective"] == "allreduce" and r["percent_of_bus"])
        bus, n = found["bus"], row["bytes"] / 1e9
        limit = max(n / bus["from_device"], n / bus["to_device"], 2 * n / bus["both"])
        self.assertAlmostEqual(row["percent_of_bus"], 100 * limit / (row["time_us"] * 1e-6), places=6)

    # Stages over MPI: a thread sends and receives, and the rest of the call runs in the stream.
    def test_stages_over_mpi(self):
        text = self.read("plan.yaml")
        self.write("plan.yaml", text.replace("algorithm: ", "provider: mpi, algorithm: "))
        _, found = self.measure("--collective", "all", "-b", "4K", "-e", "1M", "-f", "16", "--async", "2",
                                "--algorithms", "hierarchical")
        self.assertEqual({r["wrong"] for r in found["results"]}, {0})
        self.assertEqual(len(found["results"]), (5 + len(EXCHANGES)) * 3)

    def test_mistakes_on_the_device_show(self):
        text, found = self.measure("-b", "1K", "-e", "1K", "--algorithms", "flat-ring,nccl", status=1,
                                   TERRACE_TEST_WRONG="1")
        self.assertIn("WRONG ELEMENTS", text)
        wrong = {r["algorithm"]: r["wrong"] for r in found["results"]}
        self.assertEqual(wrong, {"flat-ring": 0, "nccl": 2 * RANKS})  # two iterations are checked

    # The rack has one child, so it is not measured and keeps its values.
    GPUS = """terrace_topology: 1
name: gpus
levels:
  - {name: node, size: 2, fabric: nvlink, bandwidth: 300 GB/s, latency: 2 us, nccl: {step: 3 s}}
  - {name: rack, size: 1, fabric: infiniband, bandwidth: 50 GB/s, latency: 2 us, nccl: {step: 4 s}}
  - {name: core, size: 2, fabric: infiniband, bandwidth: 25 GB/s, latency: 2 us}
"""

    def test_links(self):
        self.write("gpus.yaml", self.GPUS)
        text = self.bench("--links", "--device=cuda", "--topology", "gpus.yaml", "--anywhere", "-o", "new.yaml")
        for word in ("stand-in (memory of the host, no GPU)", "mpi through host memory", "one pair", "all pairs",
                     "3 s ", "10 us (assumed)", "written: new.yaml"):
            self.assertIn(word, text)
        node, rack, core = re.findall(r"  - {.*}\n", self.read("new.yaml"))
        self.assertIn("nccl: {step: 4 s}", rack)
        self.assertNotIn("mpi:", rack)
        time, rate = r"([\d.]+) [num]?s", r"([\d.]+) [kMGT]?(?:B|bit)/s"
        for level in (node, core):
            self.assertIn(" GB/s, latency: 2 us, nccl", level)
            found = re.search(f"nccl: {{stage: {time}, step: {time}, bandwidth: {rate}}}, "
                              f"mpi: {{step: {time}, bandwidth: {rate}}}", level)
            self.assertIsNotNone(found, level)
            self.assertGreater(min(map(float, found.groups())), 0)
        planned = subprocess.run([TERRACE, "plan", "new.yaml", "-o", "new.plan.yaml"], cwd=self.directory, check=True,
                                 text=True, capture_output=True).stdout
        for name in ("node", "core"):
            self.assertNotIn("*", re.search(f"buffers on GPUs, {name}: .*", planned).group())

    def test_links_refuses(self):
        self.write("gpus.yaml", self.GPUS)
        links = ["--links", "--device", "cuda", "--anywhere", "--topology"]
        self.assertRegex(self.bench(*links, "gpus.yaml", module="/nowhere/terrace-nccl.so", status=2),
                         r"^terrace-bench: --device cuda: /nowhere/terrace-nccl.so: .*install.*`terrace info`.*\n$")
        self.assertRegex(self.bench(*links, "cluster.yaml", status=2),
                         "^terrace-bench: cluster.yaml: .* nvlink or pcie, .* is shm; ")
        self.assertIn("gpu is none of: cuda, host", self.bench("--links", "--device", "gpu", status=2))

    def test_ranks_of_one_host_do_not_share_a_gpu(self):
        done = self.bench("-b", "1K", "-e", "1K", "--algorithms", "hierarchical", OWN_HOSTS="")
        self.assertIn("without hierarchical: ranks 0 and 1 have the same GPU, device 0 of their node", done)

    def test_without_a_gpu_it_says_what_to_do(self):
        text = self.bench("--json", "out.json", module="/nowhere/terrace-nccl.so", status=2)
        self.assertRegex(
            text, r"^terrace-bench: --device cuda: /nowhere/terrace-nccl.so: .*install.*`terrace info`.*\n$")
        self.assertFalse((self.directory / "out.json").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

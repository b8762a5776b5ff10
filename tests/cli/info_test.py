#!/usr/bin/env python3
"""terrace info, and which libraries the program links.

usage: info_test.py TERRACE SOURCE_ROOT
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from command import TERRACE, Command


class Info(Command):
    def test_says_what_there_is_and_why_not(self):
        text = self.terrace("info")
        for pattern in [r"^terrace \d+\.\d+\.\d+$", r"^  mpi +(yes +\S.* \d+\.\d+|no +.*libopenmpi-dev)",
                        r"^  shm +yes ", r"^  ucx +(yes|no) +\S", r"^  pmix +(yes|no) +\S",
                        r"^  loopback +yes ",
                        r"^  cuda +(yes|no) +\S", r"^  nccl +(yes|no) +\S", r"^  hwloc +\d+\.\d+",
                        r"^  yaml-cpp +\d+\.\d+",
                        r"^  TERRACE_PLAN +- +default ", r"^  TERRACE_CHECK +first +default "]:
            self.assertRegex(text, re.compile(pattern, re.M))

    def test_says_what_of_gpus_is_missing_and_what_to_do(self):
        alone = self.directory / "terrace"
        shutil.copy(TERRACE, alone)

        def gpus():
            said = subprocess.run([alone, "info", "--json"], text=True, capture_output=True, check=True).stdout
            return {b["name"]: b for b in json.loads(said)["backends"]}

        # This copy of the program has no build beside it, but may find an installed module.
        self.assertRegex(gpus()["cuda"]["detail"], r"terrace-nccl\.so")
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

    def test_says_what_slurm_tells_of_the_node(self):
        slurm = {"SLURM_TOPOLOGY_ADDR": "top.a.n0", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}
        self.assertRegex(self.terrace("info", environment=slurm),
                         r"TERRACE_TOPOLOGY_ADDR +top\.a\.n0 switch\.switch\.node +SLURM_TOPOLOGY_ADDR ")
        self.assertRegex(self.terrace("info", environment={**slurm, "TERRACE_TOPOLOGY_ADDR": "r7.n0"}),
                         r"TERRACE_TOPOLOGY_ADDR +r7\.n0 +environment ")

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
    """The planner must run without a cluster, so it links no MPI, CUDA or NCCL."""

    FORBIDDEN = re.compile(r"libmpi|libopen-|libpmpi|libcuda|libnccl|\bMPI_|\bnccl[A-Z]|\bcuda[A-Z]")

    def test_links_no_mpi_cuda_or_nccl(self):
        for tool in [["ldd"], ["nm", "--undefined-only", "--dynamic"]]:
            if shutil.which(tool[0]) is None:
                self.skipTest(f"no {tool[0]} here")
            text = subprocess.run([*tool, TERRACE], text=True, capture_output=True, check=True).stdout
            # In some distributions hwloc has plug-ins for GPUs, which it loads; they are not linked.
            self.assertIsNone(self.FORBIDDEN.search(text), text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

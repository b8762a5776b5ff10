#!/usr/bin/env python3
"""Open MPI and MPICH start ranks where exported orders say. In the place of ssh, hosts are here, each with its name.

usage: starts_test.py TERRACE SOURCE_ROOT
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
sys.dont_write_bytecode = True

from command import Command  # noqa: E402

SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec unshare --map-root-user --uts sh -c "hostname $host && $*"
"""
CLUSTER = """terrace_topology: 1
name: named
levels:
  - {name: node, fabric: shm, bandwidth: 10 GB/s, latency: 1 us, hosts: "tux9,tux[1-2]"}
  - {name: cluster, fabric: ethernet, bandwidth: 1 GB/s, latency: 5 us}
tree: [2, 1, 2]
"""
HOSTS = ["tux9", "tux9", "tux1", "tux2", "tux2"]  # by rank
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Starts(Command):
    def setUp(self):
        super().setUp()
        self.write("named.yaml", CLUSTER)
        self.terrace("plan", "named.yaml")
        self.write("ssh", SSH)
        (self.directory / "ssh").chmod(0o755)

    def file(self, form):
        self.terrace("export", "named.plan.yaml", "--to", form, "-o", form)
        return form

    def start(self, launcher, *words):
        if not shutil.which(launcher):
            self.skipTest(f"{launcher} is missing")
        done = subprocess.run([launcher, *words, "sh", "-c", "echo ${OMPI_COMM_WORLD_RANK-$PMI_RANK} $(hostname)"],
                              cwd=self.directory, env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} {host}" for rank, host in enumerate(HOSTS)])

    def test_mpich(self):
        self.start("mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", self.directory / "ssh", "-n", "5", "-f",
                   self.file("machinefile"))

    def test_open_mpi(self):
        words = ["--mca", "plm_rsh_agent", self.directory / "ssh", "--hostfile", self.file("hostfile")]
        self.start("mpirun.openmpi", *words)
        if os.cpu_count() > 1:  # one rank a core
            self.start("mpirun.openmpi", *words, "--rankfile", self.file("rankfile"), "-np", "5")


if __name__ == "__main__":
    if subprocess.run(["unshare", "--map-root-user", "--uts", "hostname", "tux1"], capture_output=True).returncode != 0:
        print("left out: no host names of our own here (unshare --map-root-user --uts)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

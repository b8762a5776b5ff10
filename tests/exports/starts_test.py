#!/usr/bin/env python3
"""Open MPI and MPICH start ranks in the exported order on the exported hosts. Open MPI 5, if tools/install-deps has
installed it, follows rules for `han`. A substitute for ssh runs every host on this machine, under its own name.

usage: starts_test.py TERRACE SOURCE_ROOT
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
sys.dont_write_bytecode = True

from command import ROOT, Command  # noqa: E402

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
BROADCAST = """import ctypes
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
byte, world = (ctypes.byref(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}")) for name in ("byte", "comm_world"))
for size in (1, 1 << 16, 1 << 22):
    mpi.MPI_Bcast(ctypes.create_string_buffer(size), size, byte, 0, world)
mpi.MPI_Finalize()
"""
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
                              capture_output=True)  # Open MPI's rsh warns of setpgid on stderr now and then
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} {host}" for rank, host in enumerate(HOSTS)],
                         done.stderr)

    def test_mpich(self):
        self.start("mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", self.directory / "ssh", "-n", "5", "-f",
                   self.file("machinefile"))

    def test_open_mpi(self):
        words = ["--mca", "plm_rsh_agent", self.directory / "ssh", "--hostfile", self.file("hostfile")]
        self.start("mpirun.openmpi", *words)
        if os.cpu_count() > 1:  # rankfiles need a core per rank
            self.start("mpirun.openmpi", *words, "--rankfile", self.file("rankfile"), "-np", "5")

    def test_open_mpi_5_says_that_it_follows_rules_for_han(self):
        home = ROOT / "build-openmpi5/mpi"
        if not (home / "bin/mpirun").exists():
            self.skipTest("Open MPI 5 is missing (tools/install-deps --openmpi5)")
        rules = self.file("openmpi-han")
        words = {"coll_han_use_dynamic_file_rules": 1, "coll_han_dynamic_rules_filename": self.directory / rules,
                 "coll_han_verbose": 80}
        done = subprocess.run(
            [home / "bin/mpirun", "--allow-run-as-root", "--prtemca", "plm_ssh_agent", self.directory / "ssh",
             "--hostfile", self.file("hostfile"),
             *(str(w) for name, value in words.items() for w in ("--mca", name, value)),
             sys.executable, "-c", BROADCAST],
            cwd=self.directory, env=ENVIRONMENT | {"LD_LIBRARY_PATH": str(home / "lib")}, text=True,
            stdin=subprocess.DEVNULL, timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        count = re.search(r"(\d+) rules", self.terrace("verify", rules))[1]
        self.assertIn(f"read {count} rules from {self.directory / rules}", done.stdout)
        of_broadcast = re.search(r"# broadcast\n.*?\n5 \d+\n(.*?)\n6 1\n", self.read(rules), re.DOTALL)[1].splitlines()
        for size in (1, 1 << 16, 1 << 22):
            component = [line.split()[1] for line in of_broadcast if int(line.split()[0]) <= size][-1]
            self.assertRegex(done.stdout, rf"for a {size} sized message\. Found a rule for collective 7 .* for a 5 "
                             rf"configuration size .*\({component}\)")


if __name__ == "__main__":
    if subprocess.run(["unshare", "--map-root-user", "--uts", "hostname", "tux1"], capture_output=True).returncode != 0:
        print("left out: no host names of our own here (unshare --map-root-user --uts)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

"""Base of the tests of terrace's commands: runs the program in a directory that has a cluster file.

These tests have the arguments TERRACE SOURCE_ROOT.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from scratch import Scratch, cluster, uneven

TERRACE, ROOT = (pathlib.Path(a).resolve() for a in sys.argv[1:3])

CLUSTER = cluster("cluster", 4, 2)
UNEVEN = uneven([[4, 2], [3, 3, 1]])
ONE_RANK = """\
terrace_topology: 1
name: one
levels: [{name: node, size: 1, fabric: shm}]
"""


def built_with_mpi():
    info = json.loads(subprocess.run([TERRACE, "info", "--json"], text=True, capture_output=True, check=True).stdout)
    return {back_end["name"]: back_end["available"] for back_end in info["backends"]}["mpi"]


class Command(Scratch):
    CLUSTER = CLUSTER

    def terrace(self, *arguments, status=0, environment={}):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TERRACE_")}
        done = subprocess.run([TERRACE, *arguments], cwd=self.directory, text=True, capture_output=True, timeout=120,
                              env={**inherited, **environment})
        called = f"terrace {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, status, called)
        if status == 0:
            self.assertEqual(done.stderr, "")
        else:
            self.assertNotEqual(done.stderr, "")
            self.assertEqual(done.stdout, "")
        return done.stdout + done.stderr

    def write_profile(self, times):
        """Writes profiles/ with these times of allreduces by cluster.plan.yaml, keyed by bytes."""
        profiles = self.directory / "profiles"
        profiles.mkdir()
        shutil.copy(self.directory / "cluster.plan.yaml", profiles / "p.plan.yaml")
        calls = [f"  - {{collective: allreduce, bytes: {bytes}, calls: 9, time: {time}}}\n"
                 for bytes, time in times.items()]
        (profiles / "p.profile.yaml").write_text("terrace_profile: 1\nplan: p.plan.yaml\ncalls:\n" + "".join(calls))


class NicPlan(Command):
    """The directory also has plan.yaml, for nodes with two NICs."""
    CLUSTER = """\
terrace_topology: 1
name: nics
levels:
  - {name: node, size: 7, fabric: shm, bandwidth: 10 GB/s, latency: 0.5 us}
  - {name: core, size: 2, fabric: ethernet, nics: {count: 2, bandwidth: 1 Gbit/s}, latency: 30 us}
"""

    def setUp(self):
        super().setUp()
        self.terrace("plan", "cluster.yaml", "-o", "plan.yaml")

"""The algorithms that `terrace export` prices send what Open MPI sends, by its monitoring component: with rules, where it
chooses by itself, and node by node.

usage: library_messages_test.py PROGRAM MPIRUN...
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

VCLUSTER = pathlib.Path(__file__).resolve().parents[2] / "tools/vcluster"
NODES, RANKS = 3, 2  # of an emulated cluster
CLUSTER = f"""terrace_topology: 1
name: library-messages
levels:
  - {{name: node, size: {RANKS}, fabric: shm, bandwidth: 10 GB/s, latency: 1 us}}
  - {{name: cluster, size: {NODES}, fabric: ethernet, bandwidth: 1 Gbit/s, latency: 50 us}}
"""
on_a_cluster = unittest.skipUnless("TERRACE_TEST_ALL" in os.environ and os.geteuid() == 0,
                                   "TERRACE_TEST_ALL=1 as root emulates a cluster")


def printed(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


def expected(*words):
    """Bytes and messages, by from and to."""
    return {(a, b): (size, count) for a, b, size, count in
            (map(int, line.split()) for line in printed(PROGRAM, "expected", *words).splitlines())}


@contextlib.contextmanager
def cluster():
    """Gives the words that start a program on all ranks."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(CLUSTER)
        file.flush()
        printed(VCLUSTER, "up", file.name)
    try:
        yield [VCLUSTER, "run"]
    finally:
        printed(VCLUSTER, "down")


class Messages(unittest.TestCase):
    def sent(self, launch, words, parameters):
        """What the ranks' files say."""
        with tempfile.TemporaryDirectory() as folder:
            parameters = {"pml_monitoring_enable": 2, "pml_monitoring_enable_output": 3,
                          "pml_monitoring_filename": f"{folder}/sent", **parameters}
            printed(*launch, *(word for name, value in parameters.items() for word in ("--mca", name, value)),
                    *(["--"] if VCLUSTER in launch else []), PROGRAM, "run", *words)
            found = {}
            for file in pathlib.Path(folder).glob("sent.*.prof"):
                for line in file.read_text().splitlines():
                    words = line.split("\t")
                    if words[0] in ("E", "I") and int(words[4].split()[0]) > 0:
                        found[int(words[1]), int(words[2])] = (int(words[3].split()[0]), int(words[4].split()[0]))
        return found

    def rules(self, calls, nodes, ranks, component):
        """The parameters by which Open MPI reads them."""
        file = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.addCleanup(file.close)
        file.write(printed(PROGRAM, "rules", calls, nodes, ranks))
        file.flush()
        return {f"coll_{component}_dynamic_rules_filename": file.name}

    def test_runs_the_algorithms_of_rules(self):
        for ranks in (6, 8):
            parameters = {"coll_tuned_use_dynamic_rules": 1, **self.rules("rules", 1, ranks, "tuned")}
            for what in ("allreduce", "broadcast", "reduce", "allgather"):
                with self.subTest(ranks=ranks, what=what):
                    self.assertEqual(expected("rules", 1, ranks, what), self.sent(
                        [*MPIRUN, "-np", ranks], ["rules", 1, ranks, what, 1], parameters))

    def test_runs_what_it_is_said_to_choose_by_itself(self):
        for ranks in (3, 6, 12):
            for what in ("allreduce", "broadcast", "reduce", "allgather"):
                with self.subTest(ranks=ranks, what=what):
                    self.assertEqual(expected("own", 1, ranks, what),
                                     self.sent([*MPIRUN, "-np", ranks], ["own", 1, ranks, what, 1], {}))

    @on_a_cluster
    def test_goes_node_by_node(self):
        parameters = {"pml": "^ucx,cm", "coll_han_priority": 40, "coll_han_use_dynamic_file_rules": 1,
                      **{f"coll_han_use_simple_{what}": 1 for what in ("bcast", "reduce")},
                      **self.rules("han", NODES, RANKS, "han")}
        with cluster() as launch:
            for what in ("broadcast", "reduce"):
                with self.subTest(what=what):  # the first calls make communicators
                    once, thrice = (self.sent(launch, ["han", NODES, RANKS, what, n], parameters) for n in (1, 3))
                    again = {way: tuple((all - first) // 2 for all, first in zip(thrice[way], once[way]))
                             for way in thrice if thrice[way] != once[way]}
                    self.assertEqual(expected("han", NODES, RANKS, what), again)


if __name__ == "__main__":
    PROGRAM, *MPIRUN = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])

"""The algorithms that `terrace export` prices send the same messages as the library. Open MPI's monitoring component
counts them, with rules and with its own choice; for MPICH, with compositions, a wrapper of UCX's send does.

usage: library_messages_test.py openmpi|mpich PROGRAM MPIRUN...
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest


def printed(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


def by_ranks(text):
    """Returns (bytes, messages) by (from, to), or by (from,)."""
    lines = [tuple(map(int, line.split())) for line in text.splitlines()]
    return {line[:-2]: line[-2:] for line in lines}


def expected(*words):
    return by_ranks(printed(PROGRAM, "expected", *words))


class Mpich(unittest.TestCase):
    def test_sends_what_compositions_ask_for(self):
        for ranks in (6, 8):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(printed(PROGRAM, "rules", "mpich", ranks))
                file.flush()
                os.environ |= {"MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE": file.name,
                               "MPIR_CVAR_NUM_CLIQUES": str(ranks // 2)}  # pretended nodes
                for what in ("allreduce", "broadcast", "reduce"):
                    with self.subTest(ranks=ranks, what=what):
                        self.assertEqual(expected("mpich", ranks, what), by_ranks(printed(
                            *MPIRUN, "-np", ranks, PROGRAM, "run", "mpich", ranks, what)))


class OpenMpi(unittest.TestCase):
    def sent(self, launch, words, parameters):
        """Runs the calls. Returns (bytes, messages) by (from, to), as the ranks' files have them."""
        with tempfile.TemporaryDirectory() as folder:
            parameters = {"pml_monitoring_enable": 2, "pml_monitoring_enable_output": 3,
                          "pml_monitoring_filename": f"{folder}/sent", **parameters}
            printed(*launch, *(word for name, value in parameters.items() for word in ("--mca", name, value)),
                    PROGRAM, "run", *words)
            found = {}
            for file in pathlib.Path(folder).glob("sent.*.prof"):
                for line in file.read_text().splitlines():
                    words = line.split("\t")
                    if words[0] in ("E", "I") and int(words[4].split()[0]) > 0:
                        found[int(words[1]), int(words[2])] = (int(words[3].split()[0]), int(words[4].split()[0]))
        return found

    def rules(self, ranks):
        """Writes rules. Returns the parameters that make Open MPI read them."""
        file = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.addCleanup(file.close)
        file.write(printed(PROGRAM, "rules", "rules", ranks))
        file.flush()
        return {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_dynamic_rules_filename": file.name}

    def test_runs_the_algorithms_of_rules(self):
        for ranks in (6, 8):
            parameters = self.rules(ranks)
            for what in ("allreduce", "broadcast", "reduce", "allgather"):
                with self.subTest(ranks=ranks, what=what):
                    self.assertEqual(expected("rules", ranks, what), self.sent(
                        [*MPIRUN, "-np", ranks], ["rules", ranks, what], parameters))

    def test_runs_what_it_is_said_to_choose_by_itself(self):
        for ranks in (3, 6, 12):
            for what in ("allreduce", "broadcast", "reduce", "allgather"):
                with self.subTest(ranks=ranks, what=what):
                    self.assertEqual(expected("own", ranks, what),
                                     self.sent([*MPIRUN, "-np", ranks], ["own", ranks, what], {}))


if __name__ == "__main__":
    library, PROGRAM, *MPIRUN = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], defaultTest={"openmpi": "OpenMpi", "mpich": "Mpich"}[library])

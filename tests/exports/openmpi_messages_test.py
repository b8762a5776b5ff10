"""The algorithms that `terrace export --to openmpi-rules` prices send what Open MPI sends, by its monitoring component;
and Open MPI reads the rules, each of which runs another algorithm."""
import pathlib
import subprocess
import sys
import tempfile
import unittest


def printed(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True).stdout


def sent(folder):
    """What the ranks' files say: bytes and messages, by from and to."""
    found = {}
    for file in folder.glob("sent.*.prof"):
        for line in file.read_text().splitlines():
            words = line.split("\t")
            if words[0] in ("E", "I") and int(words[4].split()[0]) > 0:
                found[int(words[1]), int(words[2])] = (int(words[3].split()[0]), int(words[4].split()[0]))
    return found


class Messages(unittest.TestCase):
    def test_are_those_that_are_priced(self):
        for ranks in (6, 8):
            for what in ("allreduce", "broadcast", "reduce", "allgather"):
                with self.subTest(ranks=ranks, what=what), tempfile.TemporaryDirectory() as name:
                    folder = pathlib.Path(name)
                    rules = folder / "rules.txt"
                    rules.write_text(printed("rules", ranks))
                    expected = {(a, b): (size, count) for a, b, size, count in
                                (map(int, line.split()) for line in printed("expected", ranks, what).splitlines())}
                    subprocess.run([*MPIRUN, "-np", str(ranks), "--mca", "pml_monitoring_enable", "2", "--mca",
                                    "pml_monitoring_enable_output", "3", "--mca", "pml_monitoring_filename",
                                    folder / "sent", "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca",
                                    "coll_tuned_dynamic_rules_filename", rules, PROGRAM, "run", str(ranks), what],
                                   check=True)
                    self.assertEqual(expected, sent(folder))


if __name__ == "__main__":
    PROGRAM, *MPIRUN = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""tools/smpi and tools/paper with a stand-in for SimGrid: what they ask for, keep, run again and write.

usage: tools_test.py SOURCE_ROOT TERRACE STAND_IN
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

ROOT, TERRACE, STAND_IN = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tools")]
sys.dont_write_bytecode = True

import simgrid  # noqa: E402
from scratch import Scratch  # noqa: E402

SYSTEMS = ("paper-nvlink-100gib", "paper-pcie-10gbe")


class Tools(Scratch):
    def setUp(self):
        super().setUp()
        for name in ("bin", "build"):
            (self.directory / name).mkdir()
        for program in ("smpirun", "smpicxx", "meson", "ninja"):
            (self.directory / "bin" / program).symlink_to(STAND_IN)
        self.write("build/build.ninja", "")

    def tool(self, name, *arguments, status=0, **environment):
        done = subprocess.run([ROOT / "tools" / name, *arguments], cwd=self.directory, text=True, timeout=200,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TERRACE": str(TERRACE), "TERRACE_SMPI_BUILD": str(self.directory / "build"),
                                   "STAND_IN_LOG": str(self.directory / "log"),
                                   "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", **environment})
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def asked(self):
        """What was simulated since the last time."""
        log = self.directory / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]


class Smpi(Tools):
    def test_rows(self):
        text = self.tool("smpi", "cluster.yaml", "--bytes", "65536,1048576", "--algorithms", "staged,flat-ring",
                         "--sequential", "--json", "out.json")
        one, = self.asked()  # hosts are checked by the stand-in
        self.assertEqual((one["np"], one["algorithms"], one["check"]), ("4", "staged,flat-ring", False))
        self.assertLessEqual({f"{key}:{value}" for key, value in simgrid.SETTINGS.items()}, set(one["cfg"]))
        self.assertEqual(len(text.splitlines()), 1 + 8)
        self.assertRegex(text, r"1 MiB +flat-ring +in one piece +0\.004194 ms +0\.004194 ms")
        found = json.loads(self.read("out.json"))
        self.assertEqual(found["settings"], simgrid.SETTINGS)
        self.assertEqual([(r["bytes"], r["algorithm"], r["pipelined"]) for r in found["results"]],
                         [(b, a, cut) for b in (65536, 1048576) for a in ("staged", "flat-ring") for cut in (True, False)])

    def test_a_plan_is_run_as_it_is(self):
        subprocess.run([TERRACE, "plan", "cluster.yaml", "-o", "own.yaml"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL)
        self.tool("smpi", "own.yaml", "--bytes", "4096")
        self.assertEqual(self.asked()[0]["plan"], "own.yaml")

    def test_wrong_results_and_failures(self):
        self.assertIn("WRONG on 3 ranks", self.tool("smpi", "cluster.yaml", "--bytes", "4096", "--check", status=1,
                                                    STAND_IN_WRONG="3"))
        self.assertIn("smpirun ended with status 3", self.tool("smpi", "cluster.yaml", "--bytes", "4096", status=1,
                                                               STAND_IN_FAILS="terrace_plan"))


class Paper(Tools):
    def paper(self, *arguments, **how):
        return self.tool("paper", "fig5", "-o", "out", *arguments, **how)

    def test_goes_on_where_it_ended(self):
        text = self.paper(status=1, STAND_IN_FAILS=SYSTEMS[1])
        self.assertIn("to simulate: 10 of the series, about 20 s on a free core", text)
        self.assertIn(f"[10/10] {SYSTEMS[1]}  flat-ring  8 sizes: about 2 s", text)
        self.assertEqual(text.count("smpirun ended with status 3"), 5)
        self.assertIn(f"failed: {SYSTEMS[1]}  two-level, sequential  8 sizes", text)
        first = self.asked()
        self.assertEqual(len(first), 10)
        for one in first:  # events closer than this count as one: the rows say so
            self.assertIn(f"surf/precision:{simgrid.SETTINGS['surf/precision']}", one["cfg"])
        kept = json.loads(self.read("out/paper.json"))["results"]
        self.assertEqual(len(kept), 5 * 8 + 5 * 1)
        self.assertEqual({row["precision_s"] for row in kept}, {1e-8})

        text = self.paper()
        self.assertIn("to simulate: 5 of the series", text)
        again = self.asked()
        self.assertEqual({one["bytes"] for one in again}, {",".join(str(4096 << 2 * i) for i in range(1, 8))})
        self.assertEqual(json.loads(self.read("out/paper.json"))["results"][:45], kept)
        self.assertEqual(self.read("out/paper.md").count("| 64 MiB | 0.5369 |"), 2)  # 64 Mi x 8 ps, of both systems

    def test_what_was_not_run_stands_in_brackets(self):
        def row(algorithm, pipelined, time):
            return {"machine": "paper-4096", "algorithm": algorithm, "pipelined": pipelined, "bytes": 100_000_000,
                    "time_s": time, "closed_form_s": 26e-3, "limit_s": 16e-3}

        (self.directory / "out").mkdir()
        self.write("out/paper.json", json.dumps({"results": [row("staged", False, 25e-3), row("two-level", True, None),
                                                             row("flat-ring", False, None)]}))
        text = self.tool("paper", "--draw", "-o", "out")
        self.assertEqual(self.asked(), [])
        sequential, pipelined = [line for line in text.splitlines() if line.startswith("| 4096 |")]
        self.assertEqual(sequential, "| 4096 | 25 | 26 | - | - | (26) | 26 | 16 |")
        self.assertEqual(pipelined, "| 4096 | - | - | (26) | 26 | (26) | 26 | 16 |")
        if "no pictures" not in text:
            self.assertIn("flat-ring, closed form alone", self.read("out/paper-beyond.svg"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

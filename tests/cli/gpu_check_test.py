#!/usr/bin/env python3
"""tools/gpu-check and tools/install-deps --cuda on a host without a GPU: they report that, and what to do.

usage: gpu_check_test.py SOURCE_ROOT [BUILD_ROOT]

A rehearsal uses the stand-in (tests/support/gpu_module.cpp), and shows nothing about a GPU.
"""
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "/nowhere").resolve()
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

from scratch import load  # noqa: E402


def has_gpu():
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


class Scratch(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def run_tool(self, *arguments, status, **how):
        done = subprocess.run([ROOT / "tools" / arguments[0], *arguments[1:]], cwd=self.directory, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=240, **how)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr


class Usage(Scratch):
    def test_help_names_all_options(self):
        text = self.run_tool("gpu-check", "--help", status=0)
        for option in ["--pack", "--packed", "--rehearse", "--from", "--to", "--build", "--json", "--patience",
                       "Exit codes"]:
            self.assertIn(option, text)

    def test_wrong_usage_exits_2(self):
        for wrong in [["--fast"], ["--from", "soon"], ["--pack", "a", "--packed"], ["--json", "no/such/file"],
                      ["--build", "."]]:
            self.run_tool("gpu-check", *wrong, status=2)

    def test_a_pack_is_not_put_where_something_is(self):
        (self.directory / "mine").mkdir()
        (self.directory / "mine/file").touch()
        self.assertIn("mine is there already", self.run_tool("gpu-check", "--pack", "mine", status=2))


@unittest.skipIf(len(sys.argv) < 3, "no build with Open MPI and UCX given")
class OfABuild(Scratch):
    @unittest.skipIf(has_gpu() or not (BUILD / "lib/transport/nccl/terrace-nccl.so").exists(),
                     "there is a GPU here, or no CUDA")
    def test_without_a_gpu_it_says_why_and_what_to_do(self):
        text = self.run_tool("gpu-check", "--build", BUILD, status=3)
        self.assertRegex(text, r"^gpu-check: no GPU here: .*(driver|nvidia-smi|CUDA_VISIBLE_DEVICES).*\n$")
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_rehearsal_runs_every_part_and_says_what_needs_a_gpu(self):
        text = self.run_tool("gpu-check", "--rehearse", "--build", BUILD, "--to", "7", "--patience", "10", status=0)
        found = self.result()
        self.assertEqual([p["number"] for p in found["parts"]], list(range(1, 8)), text)
        text += self.run_tool("gpu-check", "--rehearse", "--build", BUILD, "--from", "8", "--patience", "10", status=0)
        found = self.result()
        outcomes = {p["number"]: p["outcome"] for p in found["parts"]}
        self.assertEqual(outcomes, {n: "left out" if n in (2, 3, 9, 12) else "passed" for n in range(1, 13)}, text)
        for name in ["staging", "nonblocking eager", "blocking eager", "nonblocking graph", "blocking graph"]:
            self.assertEqual({row["wrong"] for row in found["figures"][name]["results"]}, {0}, name)
        self.assertEqual([e["met"] for e in found["expected"]][0], None)
        with tarfile.open(self.directory / "gpu-check.json.tar.gz") as archive:
            self.assertIn("logs/08.log", archive.getnames())
            log = archive.extractfile("logs/08.log").read().decode()
            self.assertEqual(log.count("all ranks ended as they should"), 3)

    def result(self):
        return json.loads((self.directory / "gpu-check.json").read_text())


class Parts(Scratch):
    """Tests of how gpu-check runs its parts, with trivial shell commands."""

    def setUp(self):
        super().setUp()
        self.tool = load(ROOT / "tools/gpu-check")
        self.tool.say = lambda text: None
        self.place = types.SimpleNamespace(logs=self.directory / "logs", environment=dict(os.environ))
        self.place.logs.mkdir()

    def run_parts(self, *table, first=1, rehearse=True):
        args = types.SimpleNamespace(rehearse=rehearse, first=first, last=12, patience=1,
                                     json=self.directory / "found.json")
        if not rehearse:
            self.place.gpu = lambda: {"cuda": "some"}
        check = self.tool.Check(args, self.place)
        check.run(table)
        return json.loads(args.json.read_text())

    def part(self, *commands, seconds=20, **more):
        return self.tool.Part("some", seconds, [["sh", "-c", c] for c in commands], **more)

    def test_outcomes(self):
        found = self.run_parts(self.part("echo one"), self.part("true", "echo no GPU; exit 77"),
                               self.part("echo '[  SKIPPED ] 1'"),
                               self.part("echo wrong bits; exit 3", "echo goes on"),
                               self.tool.Part("missing", 20, [["/no/such/program"]]),
                               self.part("exit 1", rehearsed="needs a GPU"),
                               self.part("exit 1", rehearsed=[["true"]]))["parts"]
        self.assertEqual([p["outcome"] for p in found],
                         ["passed", "skipped", "skipped", "failed", "failed", "left out", "passed"])
        self.assertEqual([p["detail"] for p in found][:4], ["", "no GPU", "", "3: wrong bits"])
        self.assertEqual(found[5]["detail"], "needs a GPU")
        self.assertIn("goes on", (self.place.logs / "04.log").read_text())

    def test_a_later_run_keeps_what_an_earlier_one_found(self):
        self.run_parts(self.part("exit 3"), self.part("exit 1"))
        found = self.run_parts(self.part("true"), self.part("true"), self.part("true"), first=2)["parts"]
        self.assertEqual([(p["number"], p["outcome"]) for p in found], [(1, "failed"), (2, "passed"), (3, "passed")])

    def test_what_was_done_is_written_before_the_next_part(self):
        found = self.directory / "found.json"
        self.run_parts(self.part("true"), self.part(f"cp {found} {self.directory}/then.json; kill -9 $$"))
        self.assertEqual(len(json.loads((self.directory / "then.json").read_text())["parts"]), 1)

    def test_expected_figures(self):
        def met(rate):
            rows = [{"percent_of_copy": rate, "aligned": True, "k": 2},
                    {"percent_of_copy": 1, "aligned": False, "k": 2}]
            return self.tool.expectations({"kernels": {"rows": rows}})
        self.assertEqual([(e["found"], e["met"]) for e in met(93)], [(93, True), (None, None)])
        self.assertEqual([e["met"] for e in met(89)], [False, None])

    def test_what_takes_too_long_ends_with_all_that_it_started(self):
        found = self.run_parts(self.part(f"sleep 300 & echo $! > {self.directory}/pid; wait", seconds=1))["parts"]
        self.assertEqual(found[0]["outcome"], "failed")
        self.assertIn("out of time", found[0]["detail"])
        child = pathlib.Path("/proc", (self.directory / "pid").read_text().strip())
        for _ in range(100):  # the child's parent may reap it a little later
            if not child.exists() or ") Z " in (child / "stat").read_text():
                return
            time.sleep(0.05)
        self.fail("the child lives on")


class InstallDeps(Scratch):
    def test_finds_cuda_or_says_who_has_it(self):
        bin_directory = self.directory / "bin"
        bin_directory.mkdir()
        for program in ["bash", "cat", "dirname", "env", "grep", "readlink"]:  # no python3, so no pip and no download
            (bin_directory / program).symlink_to(shutil.which(program))
        done = subprocess.run([ROOT / "tools/install-deps", "--cuda"], text=True, capture_output=True, timeout=60,
                              env={**os.environ, "PATH": str(bin_directory)})
        if done.returncode == 0:
            self.assertRegex(done.stdout, r"^CUDA and NCCL: /\S+\n")
        else:
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "(?s)no CUDA 12 or newer.*module load.*apt-get install.*pip")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

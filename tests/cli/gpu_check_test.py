#!/usr/bin/env python3
"""What tools/gpu-check and tools/install-deps --cuda do where there is no GPU: say so, and what to do.

usage: gpu_check_test.py SOURCE_ROOT [BUILD_ROOT MODULE ...]

MODULE (tests/support/gpu_module.cpp) has memory of the host for GPUs and MPI for NCCL: what runs on it is no result of a GPU.
"""
import ctypes
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(sys.argv[1]).resolve()
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
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60, **how)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr


class Usage(Scratch):
    def test_help_names_all_options(self):
        text = self.run_tool("gpu-check", "--help", status=0)
        for option in ["--prepare", "--prefix", "--build", "--json", "--seconds", "Exit codes"]:
            self.assertIn(option, text)

    def test_wrong_usage_exits_2(self):
        for wrong in [["--fast"], ["--seconds", "soon"], ["--prepare", "a", "--prefix", "b"], ["--json", "no/such/file"]]:
            self.run_tool("gpu-check", *wrong, status=2)

    def test_a_prefix_is_not_put_where_something_is(self):
        (self.directory / "mine").mkdir()
        (self.directory / "mine/file").touch()
        if shutil.which("apt-get") and shutil.which("dpkg-deb"):
            self.assertIn("mine is there already", self.run_tool("gpu-check", "--prepare", "mine", status=2))

    @unittest.skipIf(has_gpu(), "there is a GPU here")
    def test_without_a_gpu_it_says_why_and_what_to_do(self):
        text = self.run_tool("gpu-check", status=3)
        self.assertRegex(text, r"^gpu-check: no GPU here: .*(driver|nvidia-smi|CUDA_VISIBLE_DEVICES).*\n$")
        self.assertEqual(list(self.directory.iterdir()), [])


class Parts(Scratch):
    """Its machinery, with a driver that has a GPU in name only, and programs that only end as told."""

    def setUp(self):
        super().setUp()
        self.tool = load(ROOT / "tools/gpu-check")
        self.tool.Driver = lambda: types.SimpleNamespace(names=["none"], cuda="0.0", architecture="90", version=lambda: None)
        self.tool.find_nvcc = lambda: pathlib.Path("/nowhere/bin/nvcc")
        self.tool.find_nccl = lambda nvcc: (self.directory, self.directory)
        self.tool.say = lambda text: None
        (self.directory / "nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 28\n#define NCCL_PATCH 9\n")

    def check(self, seconds=600, prefix=None):
        return self.tool.Check(types.SimpleNamespace(seconds=seconds, prefix=prefix, build=self.directory / "build"))

    @unittest.skipIf(len(sys.argv) < 4, "no build with Open MPI given")
    def test_the_bench_runs_and_its_figures_are_kept(self):
        check = self.check()
        check.build, module = (pathlib.Path(a).resolve() for a in sys.argv[2:4])
        check.environment["TERRACE_GPU_MODULE"] = str(module)
        self.tool.SIZES = self.tool.STAGING_SIZES = ["-b", "4K", "-e", "4K", "-n", "1"]
        self.assertEqual(check.result()["bench"]["bench 4 ranks"], None)
        self.assertIsNone(check.result()["links"])
        check.benches()
        self.assertEqual([p for p in check.parts if p["outcome"] != "passed"], [])
        result = json.loads(json.dumps(check.result()))
        self.assertEqual(len(re.findall("nccl: {stage: .*}, mpi: {step: .*}", result["links"])), 2)
        self.assertIn(self.tool.LINKS, [p["part"] for p in check.parts])
        result = result["bench"]
        self.assertEqual(list(result), [name for name, _, _ in self.tool.BENCH])
        for name, sizes, options in self.tool.BENCH:
            found = result[name]
            self.assertEqual((found["ranks"], found["graph"], found["staging"]),
                             (math.prod(sizes), "--graph" in options, "--staging" in options), name)
            self.assertEqual({row["wrong"] for row in found["results"]}, {0}, name)
            self.assertEqual({row["algorithm"] for row in found["results"]}, set(options[1].split(",")), name)
        self.assertIsNotNone(result["staging 1 rank"]["results"][0]["percent_of_bus"])
        self.assertIn("all results are exact", next(p for p in check.parts if p["part"] == "bench 8 ranks")["detail"])

    def test_outcomes(self):
        check = self.check()
        self.assertTrue(check.part("good", "sh", "-c", "echo one; echo two"))
        self.assertEqual(check.result()["outcome"], "passed")
        self.assertFalse(check.part("left out", "sh", "-c", "echo no GPU; exit 77"))
        self.assertFalse(check.part("a case", "sh", "-c", "echo '[  SKIPPED ] 1 test, listed below:'"))
        self.assertEqual(check.result()["outcome"], "skipped")
        self.assertFalse(check.part("bad", "sh", "-c", "echo wrong bits; exit 3"))
        self.assertFalse(check.part("missing", "/no/such/program"))
        self.assertEqual([(p["part"], p["outcome"]) for p in check.parts],
                         [("good", "passed"), ("left out", "skipped"), ("a case", "skipped"), ("bad", "failed"), ("missing", "failed")])
        self.assertEqual([p["detail"] for p in check.parts if p["part"] != "a case"][:3],
                         ["two", "no GPU", "3: wrong bits"])
        result = json.loads(json.dumps(check.result()))
        self.assertEqual((result["outcome"], result["nccl"], result["gpus"]), ("failed", "2.28.9", ["none"]))

    def test_what_takes_too_long_ends_with_all_that_it_started(self):
        check = self.check()
        check.part("long", "sh", "-c", f"sleep 300 & echo $! > {self.directory}/pid; wait", limit=1)
        self.assertEqual(check.parts[0]["outcome"], "failed")
        self.assertIn("out of time", check.parts[0]["detail"])
        child = pathlib.Path("/proc", (self.directory / "pid").read_text().strip())
        for _ in range(100):  # its parent may reap it a little later
            if not child.exists() or ") Z " in (child / "stat").read_text():
                return
            time.sleep(0.05)
        self.fail("the child lives on")

    def test_nothing_starts_when_the_time_is_up(self):
        check = self.check(seconds=1)
        self.assertFalse(check.part("late", "sh", "-c", f"touch {self.directory}/late"))
        self.assertEqual(check.parts[0]["outcome"], "skipped")
        self.assertFalse((self.directory / "late").exists())

    def test_a_prefix_is_looked_at(self):
        with self.assertRaisesRegex(self.tool.Failure, "is no prefix.*--prepare"):
            self.check(prefix=self.directory)
        (self.directory / "more/some").mkdir(parents=True)
        (self.directory / "more/some/libsurely-missing.so.1").touch()
        (self.directory / "prefix.json").write_text("{}")
        environment = self.check(prefix=self.directory).environment
        self.assertIn(f"{self.directory}/more/some", environment["LD_LIBRARY_PATH"])
        self.assertTrue(environment["PATH"].endswith(f"{self.directory}/usr/bin"))
        self.assertEqual(environment["PKG_CONFIG_SYSROOT_DIR"], str(self.directory))


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

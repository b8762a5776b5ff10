#!/usr/bin/env python3
"""pip installs the source distribution in a fresh environment: it compiles the library, and ranks run there.

usage: sdist_test.py SOURCE_ROOT

Needs the compiler, the libraries of tools/install-deps --build, and PyPI.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import venv

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
# Environment without variables for this build or the caller's packages.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TERRACE_", "LIBTERRACE"))}


class Sdist(unittest.TestCase):
    def run_in(self, folder, *command):
        done = subprocess.run([str(word) for word in command], cwd=folder, env=CLEAN, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_is_compiled_and_runs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            venv.create(folder / "venv", with_pip=True)
            programs = folder / "venv/bin"
            self.run_in(folder, programs / "pip", "install", "-q", "build")
            self.run_in(folder, programs / "python", "-m", "build", "--sdist", "--outdir", folder, ROOT / "python")
            [archive] = folder.glob("terrace-*.tar.gz")
            self.run_in(folder, programs / "pip", "install", "-q", "--no-cache-dir", archive)
            version = archive.name[len("terrace-"):-len(".tar.gz")]
            self.assertEqual(self.run_in(folder, programs / "terrace", "--version").split()[-1], version)
            said = self.run_in(folder, programs / "python", ROOT / "tests/python/wheel_ranks.py", "--ucx")
            self.assertEqual(said.splitlines()[-1], f"ok {version}")


if __name__ == "__main__":
    unittest.main()

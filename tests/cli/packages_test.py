#!/usr/bin/env python3
"""tools/packages has a --help text, and debian/ agrees with the build.

usage: packages_test.py SOURCE_ROOT VERSION
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]


def packages(*arguments, **more):
    return subprocess.run([ROOT / "tools/packages", *arguments], text=True, capture_output=True, **more)


class Packages(unittest.TestCase):
    def test_help(self):
        done = packages("--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("usage: tools/packages"), done.stdout)

    def test_bad_usage(self):
        for words, said in [(["--fast"], "unknown: --fast"), (["--output"], "--output takes a folder")]:
            done = packages(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said, done.stderr)

    def test_what_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ["bash", "dirname"]:
                os.symlink(f"/usr/bin/{program}", pathlib.Path(folder) / program)
            done = packages("--output", folder, env={"PATH": folder})
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("dh is missing: apt-get install debhelper", done.stderr)

    def test_the_version_is_that_of_the_build(self):
        first = (ROOT / "debian/changelog").read_text().split("\n")[0]
        self.assertTrue(first.startswith(f"terrace ({VERSION})"), first)
        major, minor, _ = VERSION.split(".")
        rules = (ROOT / "debian/rules").read_text()
        self.assertIn(f"libterrace0 (>= {major}.{minor}.0), libterrace0 (<< {major}.{int(minor) + 1}~)", rules)

    def test_every_package_has_files(self):
        names = re.findall(r"^Package: (.*)", (ROOT / "debian/control").read_text(), re.M)
        self.assertEqual(sorted(names), ["libterrace-dev", "libterrace-pmpi-mpich", "libterrace-pmpi-openmpi",
                                         "libterrace0", "terrace-tools"])
        for name in names:
            self.assertTrue((ROOT / f"debian/{name}.install").read_text().strip(), name)
        guide = (ROOT / "docs/guides/packages.md").read_text()
        self.assertEqual([name for name in names if f"* `{name}`:" not in guide], [])

    def test_the_licence_is_the_projects(self):
        def words(text):
            return [word for word in text.split() if word != "."]
        licence = words((ROOT / "LICENSE").read_text().split("\n\n", 2)[2])
        self.assertEqual(words((ROOT / "debian/copyright").read_text().split("License: BSD-3-Clause\n")[-1]), licence)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

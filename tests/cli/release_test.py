#!/usr/bin/env python3
"""tools/release finds what keeps a commit from being released. What it builds, it compares itself.

usage: release_test.py SOURCE_ROOT
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
FILES = {"meson.build": "project('terrace', 'cpp',\n  version: '1.2.3',\n", "README.md": "Version 1.2.3.\n",
         "debian/changelog": "terrace (1.2.3) unstable; urgency=medium\n", ".gitignore": "/build/\n",
         "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2026-01-02)\n\n* New.\n\n## 1.2.2 (2026-01-01)\n" + 200 * "* Old.\n",
         "docs/README.md": "Pages.\n"}


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Release(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = pathlib.Path(directory.name)
        for name, text in FILES.items():
            self.write(name, text)
        (self.tree / "tools").mkdir()
        for name in ["release", "lib.sh"]:
            shutil.copy(ROOT / "tools" / name, self.tree / "tools" / name)
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=self.tree, check=True,
                              capture_output=True, text=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "all")
        self.write("build/tested", self.git("rev-parse", "HEAD"))

    def problems(self):
        done = subprocess.run([self.tree / "tools/release", "--check"], text=True, capture_output=True)
        found = [line[5:] for line in done.stdout.splitlines() if line.startswith("FIX  ")]
        self.assertEqual((done.returncode, done.stderr), (1 if found else 0, ""), done.stdout)
        return found

    def test_a_commit_that_is_ready_has_no_problem(self):
        self.assertEqual(self.problems(), [])
        self.git("tag", "v1.2.3")
        self.assertEqual(self.problems(), [])

    def test_each_problem_is_found(self):
        for name, text, problem in [
                ("debian/changelog", "terrace (1.2.2) unstable\n", "debian/changelog has the version"),
                ("CHANGELOG.md", "## 1.2.3 (unreleased)\n", "CHANGELOG.md has the version and its date"),
                ("CHANGELOG.md", "## 1.2.3 (2026-01-02)\n" + 200 * "* New.\n", "CHANGELOG.md has at most 120 lines for it"),
                ("docs/README.md", "1.2.3 is not released.\n", 'no page says "not released"'),
                ("docs/README.md", "1.2.3 is not\n  released.\n", 'no page says "not released"')]:
            with self.subTest(problem):
                self.write(name, text)
                self.commit()
                self.assertEqual(self.problems(), [problem])
                self.write(name, FILES[name])
        self.commit()
        self.write("README.md", "changed\n")
        self.assertEqual(self.problems(), ["everything is committed"])
        self.git("checkout", "README.md")
        self.write("build/tested", "another\n")
        self.assertEqual(self.problems(), ["all tests have passed on this commit"])
        self.git("tag", "v1.2.3")
        self.commit()
        self.assertEqual(self.problems(), ["no other commit has the tag v1.2.3"])

    def test_bad_usage(self):
        for words, said in [(["--fast"], "unknown: --fast"), (["--output"], "--output takes a folder")]:
            done = subprocess.run([ROOT / "tools/release", *words], text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""tools/tidy checks what was changed, everything, or a share of a tree without history.

usage: tidy_test.py SOURCE_ROOT
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
CLEAN = "int add(int a, int b) { return a + b; }\n"
REDUNDANT = "#include <string>\nint size(std::string s) { return s.empty() ? 0 : 1; }\n"  # copied for nothing
FINDING = "performance-unnecessary-value-param"


@unittest.skipUnless(shutil.which("clang-tidy-14") and shutil.which("git"), "clang-tidy-14 or git is not installed")
class Tidy(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name) / "tree"
        (self.root / "tools").mkdir(parents=True)
        (self.root / "lib").mkdir()
        shutil.copy(ROOT / "tools/tidy", self.root / "tools/tidy")
        shutil.copy(ROOT / ".clang-tidy", self.root)
        self.write("meson_options.txt", "option('cuda', type: 'feature', value: 'auto')\n")
        self.write("meson.build", "project('small', 'cpp', default_options: ['cpp_std=c++20'])\n"
                                  "static_library('small', 'lib/old.cpp', 'lib/new.cpp', include_directories: 'lib')\n")
        self.write(".gitignore", "/build*/\n")
        self.write("lib/old.cpp", REDUNDANT.replace("size", "old_size"))
        self.write("lib/new.cpp", '#include "new.hpp"\n' + CLEAN)
        self.write("lib/new.hpp", "int add(int a, int b);\n")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def write(self, name, text):
        (self.root / name).write_text(text)

    def git(self, *arguments, at=None):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always",
                        *arguments], cwd=at or self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "change")

    def tidy(self, *arguments, status, at=None):
        done = subprocess.run([(at or self.root) / "tools/tidy", *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_headers_that_a_build_writes_are_there(self):
        self.write("meson.build", "project('small', 'cpp', default_options: ['cpp_std=c++20'])\n"
                                  "made = custom_target('made.hpp', output: 'made.hpp',\n"
                                  "  command: ['sh', '-c', 'echo \"int made();\" > $0', '@OUTPUT@'])\n"
                                  "static_library('small', 'lib/old.cpp', 'lib/new.cpp', made)\n")
        self.write("lib/new.cpp", '#include "made.hpp"\n#include "new.hpp"\n' + CLEAN)
        self.commit()
        self.assertIn("0 findings in 1 files", self.tidy(status=0))

    def test_finds_what_was_changed_and_nothing_else(self):
        self.write("lib/new.cpp", '#include "new.hpp"\n' + CLEAN + "// changed\n")
        self.commit()
        self.assertIn("0 findings in 1 files", self.tidy(status=0))
        self.write("lib/new.cpp", '#include "new.hpp"\n' + CLEAN + REDUNDANT)  # not committed
        said = self.tidy(status=1)
        self.assertIn("lib/new.cpp:4:", said)
        self.assertIn(FINDING, said)
        self.assertNotIn("old.cpp", said)

    def test_a_branch_is_compared_with_where_it_began(self):
        self.git("checkout", "-qb", "feature")
        self.write("lib/new.cpp", '#include "new.hpp"\n' + CLEAN + REDUNDANT)
        self.commit()
        self.write("lib/new.hpp", "int add(int a, int b);  // and more\n")
        self.commit()
        self.assertIn("lib/new.cpp:4:", self.tidy(status=1))

    def test_finds_headers_where_they_are_included(self):
        self.commit_more()
        self.write("lib/new.hpp", "#include <string>\ninline bool none(std::string s) { return s.empty(); }\n"
                                  "int add(int a, int b);\n")
        self.assertIn("lib/new.hpp:2:", self.tidy(status=1))

    def commit_more(self):
        self.write("more.txt", "more\n")
        self.commit()

    def test_nothing_to_do(self):
        self.commit_more()
        self.assertIn("no C++ file differs", self.tidy(status=0))

    def test_all(self):
        self.assertIn("lib/old.cpp:2:", self.tidy("--all", status=1))

    def test_a_tree_without_history_has_a_share_checked(self):
        self.git("clone", "-q", "--depth", "1", f"file://{self.root}", "shallow", at=self.root.parent)
        said = self.tidy(status=0 if self.share() else 1, at=self.root.parent / "shallow")
        self.assertIn("as there is no history", said)

    def share(self):
        """The share of the tree that this commit has; the only unit is in share 0."""
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=self.root, capture_output=True, text=True)
        return int(done.stdout[:8], 16) % 6

    def test_wrong_usage(self):
        self.assertIn("usage:", self.tidy("--help", status=0))
        self.tidy("--some", status=2)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""tools/check-odr finds two types of one name, and nothing else.

usage: check_odr_test.py SOURCE_ROOT
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def check(files):
    """The lines that check-odr prints for these files, and whether it wrote its stamp."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name, text in files.items():
            (root / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "lib" / name).write_text(text)
        done = subprocess.run([ROOT / "tools/check-odr", root, root / "stamp", "lib"], capture_output=True, text=True)
        stamped = (root / "stamp").exists()
        assert stamped == (done.returncode == 0), done
        return done.stderr.splitlines()


class CheckOdr(unittest.TestCase):
    def finds(self, *texts):
        lines = check({f"{i}.hpp": text for i, text in enumerate(texts)})
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    def passes(self, *texts):
        self.assertEqual(check({f"{i}.hpp": text for i, text in enumerate(texts)}), [])

    def test_names_both_places(self):
        self.assertEqual(self.finds("namespace a {\nstruct place { int x; };\n}\n",
                                    "namespace a {\n\n/// Other.\nclass place final : base { };\n}\n"),
                         "lib/1.hpp:4: a::place is also defined at lib/0.hpp:2; rename one of the two, or move both "
                         "into anonymous namespaces")

    def test_finds_types_of_every_form(self):
        plain = "namespace a::b { struct x { }; }"
        for other in ["namespace a { namespace b { class x { }; } }",
                      "namespace a::b { template <class T> struct x { }; }",
                      "namespace a::b { template <class T> requires (sizeof(T) == 4) struct x { }; }",
                      "namespace a::b { class [[gnu::visibility(\"hidden\")]] x final { }; }",
                      "namespace a::b { class TERRACE_API x : public y<int> { }; }",
                      "namespace a::b { enum class x : int { one, two }; }",
                      "namespace a::b { union x { }; }",
                      "#define BRACE {\nnamespace a::b { void f() { if (true) { } } struct x { }; }",
                      "namespace a::b { struct y { int z{1}; }; const char* s = \"}\"; char c = '}'; struct x { }; }"]:
            with self.subTest(other):
                self.finds(plain, other)
        self.finds("namespace a { struct x { struct y { }; }; }", "namespace a { struct x; struct x::y { }; }")
        self.finds("namespace a { template <> struct x<int> { }; }", "namespace a { template <> struct x<int> { }; }")

    def test_passes_what_is_allowed(self):
        plain = "namespace a { struct x { }; }"
        for other in ["namespace b { struct x { }; }",
                      "namespace a { namespace { struct x { }; } }",
                      "namespace a { struct x; }",
                      "namespace a { struct y { struct x { }; }; }",
                      "namespace a { void f() { struct x { }; } }",
                      "namespace a { struct x f() { return {}; } }",
                      "namespace a { void f(struct x y) { } }",
                      "namespace a { struct x y = { }; }",
                      "namespace a { // struct x { };\n/* struct x { }; */ }",
                      "namespace a { template <> struct x<int> { }; }",
                      "namespace a { constexpr long n = 1'000'000; namespace b { struct x { }; } }"]:
            with self.subTest(other):
                self.passes(plain, other)
        self.passes("namespace a {\n#if ONE\nstruct x { int y; };\n#else\nstruct x { };\n#endif\n}")

    def test_passes_this_project(self):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run([ROOT / "tools/check-odr", ROOT, pathlib.Path(directory) / "stamp"],
                                  capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


unittest.main()

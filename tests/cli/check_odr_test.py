#!/usr/bin/env python3
"""tools/check-odr finds types of equal name, and reports nothing else.

usage: check_odr_test.py SOURCE_ROOT
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()


def check(files):
    """Returns the lines that check-odr prints for these files, and whether it wrote its stamp."""
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

    @staticmethod
    def inside(namespace, *lines):
        return "\n".join([f"namespace {namespace} {{", *lines, f"}}  // namespace {namespace}", ""])

    def test_names_both_places(self):
        self.assertEqual(self.finds(self.inside("a", "struct place {", "    int x;", "};"),
                                    self.inside("a", "", "/// Other.", "class place final : public base {};")),
                         "lib/1.hpp:4: a::place is also defined at lib/0.hpp:2; rename one of the two, or move both "
                         "into anonymous namespaces")

    def test_finds_types_of_every_form(self):
        plain = self.inside("a::b", "struct x {};")
        for lines in [["template <class T>", "struct x {};"],
                      ["class [[gnu::visibility(\"hidden\")]] x final {};"],
                      ["class TERRACE_API x : public y<int> {};"],
                      ["class x : public a_long_name,", "          public another {", "};"],
                      ["enum class x : int { one, two };"], ["union x {", "    int y;", "};"],
                      ["void f() {", "    if (true) {", "    }", "}", "", "struct x {};"]]:
            with self.subTest(lines[0]):
                self.finds(plain, self.inside("a::b", *lines))
        self.finds(plain, self.inside("a", self.inside("b", "class x {};")))
        self.finds(plain, "namespace c {\nclass y;\n}\n\n" + plain)
        special = self.inside("a", "template <>", "struct x<int> {};")
        self.finds(special, special)

    def test_passes_what_is_allowed(self):
        plain = self.inside("a", "struct x {};")
        self.passes(plain, self.inside("b", "struct x {};"))
        self.passes(plain, self.inside("a", "namespace {", "", "struct x {};", "", "}  // namespace"))
        for lines in [["struct x;"], ["struct y {", "    struct x {};", "};"], ["void f() {", "    struct x {};", "}"],
                      ["struct x f() { return {}; }"], ["struct x y = {};"], ["// struct x {};"],
                      ["template <>", "struct x<int> {};"]]:
            with self.subTest(lines[0]):
                self.passes(plain, self.inside("a", *lines))
        self.passes(self.inside("a", "#if ONE", "struct x {", "    int y;", "};", "#else", "struct x {};", "#endif"))

    def test_passes_this_project(self):
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run([ROOT / "tools/check-odr", ROOT, pathlib.Path(directory) / "stamp"],
                                  capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


unittest.main()

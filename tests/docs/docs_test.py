#!/usr/bin/env python3
"""What the documentation shows exists: links lead to files, snippets are parts of programs that are built.

usage: docs_test.py SOURCE_ROOT [TEST]
"""
import pathlib
import re
import sys
import textwrap
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("topologies/*.md"), *ROOT.glob("lib/**/*.md"),
                *ROOT.glob("planner/**/*.md")])
COLLECTIVES = ["allreduce", "reduce_scatter", "allgather", "broadcast", "reduce"]


def snippets(page):
    return re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.M | re.S)


def anchors(page):
    """The names by which links reach the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Docs(unittest.TestCase):
    def test_links_lead_to_files(self):
        links = 0
        for page in PAGES:
            for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
                if not re.match(r"[a-z]+:", link):
                    links += 1
                    target = page.parent / link if link else page
                    self.assertTrue(target.exists(), f"{page.relative_to(ROOT)}: {link}")
                    if anchor:
                        self.assertIn(anchor, anchors(target), f"{page.relative_to(ROOT)}: {link}#{anchor}")
        self.assertGreater(links, 10)

    def test_the_index_has_every_page(self):
        for index in ["docs/README.md", "docs/measurements/README.md", "docs/collectives/README.md"]:
            folder = (ROOT / index).parent
            linked = {(folder / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", (ROOT / index).read_text())}
            for page in folder.glob("*.md" if index != "docs/README.md" else "**/*.md"):
                elsewhere = page.parent.name in ("measurements", "collectives") and index == "docs/README.md"
                if page.name != "README.md" and not elsewhere:
                    self.assertIn(page.resolve(), linked, f"{index} lacks {page.relative_to(ROOT)}")

    def test_named_files_exist(self):
        for page in PAGES:
            if page.stem.startswith("adding-"):  # names files that the reader is to write
                continue
            for name in re.findall(r"`((?:bench|docs|include|lib|planner|tests|tools|topologies)/[\w./-]+)`",
                                   page.read_text()):
                self.assertTrue((ROOT / name).exists() or (ROOT / (name + ".cpp")).exists(),
                                f"{page.relative_to(ROOT)}: {name}")

    def test_sources_name_pages_that_exist(self):
        folders = ["bench", "include", "lib", "packaging", "planner", "tests", "tools"]
        sources = [p for folder in folders for p in ROOT.glob(f"{folder}/**/*") if p.suffix in (".cpp", ".hpp", ".cu", ".build")]
        for source in sources:
            for name in re.findall(r"\bdocs/[\w/-]+\.md\b", source.read_text()):
                self.assertTrue((ROOT / name).exists(), f"{source.relative_to(ROOT)}: {name}")

    def test_every_collective_has_a_page_with_a_picture_and_a_program(self):
        for name in COLLECTIVES:
            page = ROOT / f"docs/collectives/{name}.md"
            program = (ROOT / f"docs/examples/{name}.cpp").read_text()
            self.assertIn("```\nrank 0 ", page.read_text())
            self.assertTrue(snippets(page), page)
            for snippet in snippets(page):
                self.assertIn(textwrap.indent(snippet, "    "), program, f"{page.name}: not in docs/examples/{name}.cpp")

    def test_the_program_of_the_readme_is_an_example(self):
        program = iter((ROOT / "docs/examples/allreduce.cpp").read_text().splitlines())
        lines = [line for line in snippets(ROOT / "README.md")[0].splitlines() if line]
        self.assertIn("int main(int argc, char** argv) {", lines)
        for line in lines:
            self.assertIn(line, program)  # goes on where the line before was found

    def test_the_plan_of_the_format_page_is_part_of_what_is_planned(self):
        sample = re.search(r"^```yaml\n(terrace_plan.*?)^```", (ROOT / "docs/reference/plan-file.md").read_text(), re.M | re.S).group(1)
        plan = iter((ROOT / "tests/golden/two-by-four.plan.yaml").read_text().splitlines())
        for line in sample.splitlines():
            if not line.startswith("verified:"):  # golden plans are not proved
                self.assertIn(line, plan)  # goes on where the line before was found

    def test_every_promise_names_tests_that_exist(self):
        sources = "".join(p.read_text() for p in ROOT.glob("tests/**/*.cpp"))
        builds = "".join(p.read_text() for p in ROOT.glob("tests/**/meson.build"))
        rows = re.findall(r"^\| .* \| (`.*`) \| (\S.*) \|$", (ROOT / "docs/reference/reliability.md").read_text(), re.M)
        self.assertGreaterEqual(len(rows), 10)
        for command, figure in rows:
            for name in re.findall(r"[a-z_]{4,}", "".join(re.findall(r"--gtest_filter='([^']*)'", command))):
                self.assertIn(name, sources, command)
            for name in re.findall(r"build/tests/(?:\w+/)?(\w+)_tests", command):
                self.assertIn(name, builds, command)

    def test_every_program_is_built(self):
        for build in ["docs/examples/meson.build", "docs/examples/CMakeLists.txt"]:
            words = re.findall(r"\w+", (ROOT / build).read_text())
            for program in ROOT.glob("docs/examples/*.cpp"):
                self.assertIn(program.stem, words, build)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The documentation is true of the source, and complete.

Links lead to files, and snippets are parts of example programs. Options of the programs, keys of plans and cluster
files, and the terms of --help have a row in a reference page or the glossary.

usage: docs_test.py SOURCE_ROOT [--programs TERRACE TERRACE_BENCH] [TEST]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = []
if sys.argv[1:2] == ["--programs"]:
    PROGRAMS, sys.argv[1:4] = sys.argv[2:4], []
PAGES = sorted(page for pattern in ["*.md", "docs/**/*.md", "topologies/*.md", "lib/**/*.md", "planner/**/*.md"]
               for page in ROOT.glob(pattern))
COLLECTIVES = ["allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "alltoall", "gather", "scatter",
               "alltoallv", "barrier"]


def snippets(page):
    return re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.M | re.S)


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(*pages):
    """Returns the terms in first cells of the pages' tables and before the colons of their lists, whole and first word:
    `--slurm FILE` also as --slurm."""
    text = "\n".join((ROOT / page).read_text() for page in pages)
    cells = [*re.findall(r"^\| (.*?) \|", text, re.M), *re.findall(r"^\* (`.*?`): ", text, re.M)]
    return {term for cell in cells for part in [*re.findall(r"`([^`]*)`", cell), *cell.split(", ")]
            for term in (part, part.split(" ")[0] if part.startswith("-") else part.split(" (")[0])}


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def help_of(*command):
    """Returns a program's output for --help, without its examples."""
    return output_of(*command, "--help").partition("\nExamples:")[0]


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

    def test_lines_have_at_most_120_columns(self):
        long = [f"{page.relative_to(ROOT)}:{number}: {len(line)} columns" for page in PAGES
                for number, line in enumerate(page.read_text().splitlines(), 1) if len(line) > 120 and line[0] != "|"]
        self.assertEqual(long, [])

    def test_rows_stand_below_the_head_of_their_table(self):
        cut = [f"{page.relative_to(ROOT)}: {row}" for page in PAGES
               for row in re.findall(r"^\n(\|.*)\n(?!\|[-| :]+\|$)", page.read_text(), re.M)]
        self.assertEqual(cut, [])

    def test_pages_have_at_most_2500_words(self):
        long = [f"{page.relative_to(ROOT)}: {words} words" for page in PAGES
                if (words := len(re.findall(r"\w\S*", page.read_text()))) > 2500]
        self.assertEqual(long, [])

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
            if page.stem.startswith("adding-"):  # names files that readers will write
                continue
            for name in re.findall(r"`((?:bench|docs|include|lib|planner|tests|tools|topologies)/[\w./-]+)`",
                                   page.read_text()):
                self.assertTrue((ROOT / name).exists() or (ROOT / (name + ".cpp")).exists(),
                                f"{page.relative_to(ROOT)}: {name}")

    def test_sources_name_pages_that_exist(self):
        folders = ["bench", "include", "lib", "packaging", "planner", "tests", "tools"]
        sources = [p for folder in folders for p in ROOT.glob(f"{folder}/**/*")
                   if p.suffix in (".cpp", ".hpp", ".cu", ".build")]
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
                self.assertIn(textwrap.indent(snippet, "    "), program,
                              f"{page.name}: not in docs/examples/{name}.cpp")

    def test_the_program_of_the_guide_is_an_example(self):
        program = iter((ROOT / "docs/examples/allreduce.cpp").read_text().splitlines())
        lines = [line for line in snippets(ROOT / "docs/guides/cpp.md")[0].splitlines() if line]
        self.assertIn("int main(int argc, char** argv) {", lines)
        for line in lines:
            self.assertIn(line, program)  # continues after the previous line

    def test_the_plan_of_the_format_page_is_part_of_what_is_planned(self):
        page = (ROOT / "docs/reference/plan-file.md").read_text()
        sample = re.search(r"^```yaml\n(terrace_plan.*?)^```", page, re.M | re.S).group(1)
        plan = iter((ROOT / "tests/golden/two-by-four.plan.yaml").read_text().splitlines())
        for line in sample.splitlines():
            if not line.startswith("verified:"):  # golden plans are not proved
                self.assertIn(line, plan)  # continues after the previous line

    def test_messages_of_troubleshooting_are_those_of_the_sources(self):
        """At least half of a message's word triples are in the sources. Triples with numbers or names do not count."""
        folders = ["include", "lib", "pmpi", "python/src"]
        sources = [p.read_text() for folder in folders for p in ROOT.glob(f"{folder}/**/*")
                   if p.suffix in (".cpp", ".hpp", ".py")]
        text = re.sub(r"[()]", "", "".join(re.sub(r'"\s*\n\s*f?"', "", source) for source in sources))
        page = (ROOT / "docs/reference/troubleshooting.md").read_text()
        messages = [m for cell in re.findall(r"^\| (.*?) \|", page, re.M) if "(from " not in cell
                    for m in re.findall(r"`([^`]{20,})`", cell)]
        self.assertGreater(len(messages), 40)
        for message in messages:
            words = re.sub(r"[()]", "", message).split()
            threes = [" ".join(words[i:i + 3]) for i in range(len(words) - 2)]
            fixed = [three for three in threes if not re.search(r'\d|\.\.\.|"', three)]
            printed = [three for three in fixed if three in text]
            self.assertGreaterEqual(2 * len(printed), len(fixed), message)

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

    def missing(self, terms, *pages):
        self.assertEqual(sorted(set(terms) - rows(*pages)), [], f"no row in {' or '.join(pages)}")

    def test_every_control_message_has_a_row(self):
        text = (ROOT / "lib/control/services.hpp").read_text()
        services = re.findall(r'^    \{"(\w+)", kinds_up_to\(', text, re.M)
        kinds = [words.split(", ") for words in re.findall(r"^enum class \w+_kind : .*\{ (.*) \}", text, re.M)]
        self.assertEqual([words[-1] for words in kinds], re.findall(r"kinds_up_to\(\w+::(\w+)\)", text))
        self.assertGreater(len(services), 3)
        self.missing(services + sum(kinds, []), "docs/explanation/control-messages.md")

    def test_every_option_has_a_row(self):
        if not PROGRAMS:
            self.skipTest("no programs to ask")
        terrace, bench = PROGRAMS
        page = "docs/reference/command-line.md"
        commands = re.findall(r"^  (\w+)  ", help_of(terrace).partition("Subcommands:")[2], re.M)
        self.assertGreater(len(commands), 5)
        self.missing(commands, page)
        option = r"^  (?:-\w,)?(--[\w-]+)"
        for command in commands:
            self.missing(set(re.findall(option, help_of(terrace, command), re.M)) - {"--help"}, page)
        for mode in [[], ["--links"], ["--detect"], ["--discover"], ["--suite"], ["--training"], ["--chaos"]]:
            options = re.findall(option, help_of(bench, *mode), re.M)
            self.assertGreater(len(options), 2)
            self.missing(set(options) - {"--help", "--version"}, page, "docs/reference/benchmark.md",
                         "docs/reference/discover.md",
                         "docs/reference/training-benchmark.md")

    def test_every_script_has_a_row(self):
        scripts = [path.name for path in ROOT.glob("tools/*") if path.is_file() and os.access(path, os.X_OK)]
        self.assertGreater(len(scripts), 10)
        self.missing(scripts, "docs/reference/command-line.md")

    def test_every_term_of_help_is_in_the_glossary(self):
        if not PROGRAMS:
            self.skipTest("no programs to ask")
        terms = set()
        for command in [[PROGRAMS[0], "plan"], [PROGRAMS[0], "simulate"], [PROGRAMS[1]]]:
            text = help_of(*command)
            lists = re.findall(r"^(?:Algorithms|Providers)[^\n]*:\n((?:  .*\n)+)", text + "\n", re.M)
            terms |= {term for block in lists for term in re.findall(r"^  ([\w-]+) {2,}", block, re.M)}
            terms |= {term for words in re.findall(r"^  --algorithm [^{\n]*\{(.*?)\}", text, re.M)
                      for term in words.split(",")}
        self.assertGreater(len(terms), 10)
        self.missing(terms, "docs/glossary.md")

    def test_the_program_of_the_traced_call_is_what_is_printed(self):
        if not PROGRAMS:
            self.skipTest("no programs to ask")
        page = (ROOT / "docs/explanation/call-to-wire.md").read_text()
        shown = re.search(r"^```\n(  n  instruction.*?)^```", page, re.M | re.S).group(1)
        plan = ROOT / "tests/golden/two-by-four.plan.yaml"
        printed = output_of(PROGRAMS[0], "explain", plan, "--bytes", "4000", "--rank", "0")
        self.assertEqual(printed.partition("float32\n")[2], shown)

    def test_the_blocks_of_the_uneven_example_are_in_the_printed_order(self):
        if not PROGRAMS:
            self.skipTest("no programs to ask")
        page = (ROOT / "docs/explanation/ownership.md").read_text()
        shown = re.search(r"^block  (.*)$", page, re.M).group(1).split()
        options = re.search(r"^terrace explain uneven.plan.yaml (.*?) *#", page, re.M).group(1).split()
        printed = output_of(PROGRAMS[0], "explain", ROOT / "tests/golden/uneven.plan.yaml", *options)
        self.assertEqual(len(re.findall(r" scatter ", printed.partition("\n")[0])), 3)
        copies = re.findall(r"copy +scratch\[(\d+)\.\.(\d+)\) = send\[(\d+)", printed)
        order = [str(int(src) // (int(end) - int(dst))) for dst, end, src in sorted(copies, key=lambda c: int(c[0]))]
        self.assertEqual(order, shown)

    def test_every_key_has_a_row(self):
        for page, sources in {"docs/reference/plan-file.md": ["lib/plan/*.cpp"],
                              "docs/reference/topology-files.md": ["lib/machine/*.cpp",
                                                                   "lib/topology/**/*.cpp"]}.items():
            text = "".join(path.read_text() for source in sources for path in ROOT.glob(source))
            keys = {key for words in re.findall(r"allow_only\(\{(.*?)\}\)", text, re.S)
                    for key in re.findall(r'"(\w+)"', words)}
            self.assertGreater(len(keys), 10)
            self.missing(keys, page, "docs/reference/topology-files.md", "docs/reference/nics.md",
                         "docs/reference/network-files.md", "docs/reference/profiles.md")
        text = (ROOT / "lib/plan/plan_yaml.cpp").read_text()
        self.missing(re.search(r"the modes are ([\w, ]+)", text).group(1).split(", "), "docs/glossary.md")

    def test_the_files_of_the_guides_compile(self):
        file = re.compile(r"`((?:lib|tests)/[\w/]+\.[ch]pp)`[^`]*?:\n\n```cpp\n(.*?)^```", re.M | re.S)
        with tempfile.TemporaryDirectory() as directory:
            sources = []
            for page in ROOT.glob("docs/guides/adding-*.md"):
                for name, text in file.findall(page.read_text()):
                    path = pathlib.Path(directory, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                    sources += [path] if path.suffix == ".cpp" else []
            self.assertGreaterEqual(len(sources), 2)
            folders = [f"-I{root}/{folder}" for root in (directory, ROOT) for folder in ("include", "lib", "tests", "")]
            done = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
                                   "-Werror", *folders, *sources], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_program_is_built(self):
        for build in ["docs/examples/meson.build", "docs/examples/CMakeLists.txt"]:
            words = re.findall(r"\w+", (ROOT / build).read_text())
            for program in ROOT.glob("docs/examples/*.cpp"):
                self.assertIn(program.stem, words, build)


if __name__ == "__main__":
    unittest.main()

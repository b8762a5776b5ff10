#!/usr/bin/env python3
"""terrace report: its pages need no other file. If Debian's Chromium is installed, it opens them; if a Python package
has axe-core, that checks their accessibility.

usage: report_test.py TERRACE SOURCE_ROOT [TEST]
"""
import html
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TERRACE, ROOT = os.path.abspath(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1)).resolve()
CHROMIUM = shutil.which("chromium")
CLUSTER = """\
terrace_topology: 1
name: %s
levels:
  - {name: node, size: %d, fabric: nvlink, bandwidth: 450 GB/s}
  - {name: rack, size: %d, fabric: infiniband, bandwidth: 50 GB/s}
  - {name: core, size: %d, fabric: infiniband, bandwidth: 800 GB/s}
"""


def results(plan_id="x", **factors):
    """Returns terrace-bench's JSON for a run in which each algorithm takes its factor [us] per KiB."""
    return {"terrace_bench": 1, "made_by": "terrace-bench 0.1.0", "plan_id": plan_id, "ranks": 13,
            "results": [
                {"algorithm": name, "collective": "allreduce", "bytes": bytes, "time_us": factor * bytes / 1024,
                 "time_us_p25": 0.9 * factor * bytes / 1024, "time_us_p75": 1.2 * factor * bytes / 1024,
                 "ratio": factor, "percent_of_limit": 50 / factor, "wrong": 0}
                for name, factor in factors.items() for bytes in (4096, 65536, 1048576)]}


def suite(plan_id):
    """Returns the JSON of tools/bench-suite: a run with the baselines, and one with another setting of MPI."""
    return {"terrace_suite": 1, "cluster": "uneven", "collective": "allreduce", "left_out": ["HAN: it is not here"],
            "runs": [{"name": "baselines", "found": results(plan_id, **{"hierarchical": 1, "flat-ring": 3, "mpi": 2})},
                     {"name": "its ring", "found": results(plan_id, hierarchical=1, mpi=4)}]}


def calls():
    """Returns a report of the drop-in."""
    row = {"communicator": "world", "calls": 10, "bytes_from": 1 << 20, "bytes_to": (2 << 20) - 1,
           "saved_seconds": None, "passed": "", "algorithm": None}
    return {"terrace_report": 1, "terrace": "0.1.0", "mpi": "MPI", "ranks": 8, "of_all_ranks": True, "calls": 20,
            "terrace_calls": 9, "seconds": 3.5, "trial_seconds": 0.25, "saved_seconds": 1.5, "rows": [
                {"call": "bcast", "seconds": 0.5, "terrace_calls": 0, "mpi_seconds": 0.5, "terrace_seconds": 0, **row,
                 "passed": "mpi_is_faster 10"},
                {"call": "allreduce", "seconds": 3.0, "terrace_calls": 9, "mpi_seconds": 1.0, "terrace_seconds": 2.0,
                 **row, "saved_seconds": -0.5}]}


# Script that runs after the page's own scripts and sends its findings to the frame around the page.
LOOK = """
<script>
addEventListener("load", () => {
  for (const closed of document.querySelectorAll("details")) closed.open = true;
  const found = {loaded: performance.getEntriesByType("resource").map((r) => r.name), rows: {},
                 dark: matchMedia("(prefers-color-scheme: dark)").matches,
                 nodes: document.querySelectorAll("*").length, height: document.documentElement.scrollHeight,
                 width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth, ms: performance.now()};
  for (const s of document.querySelectorAll("section")) found.rows[s.id] = s.querySelectorAll("tr").length;
  const slider = document.querySelector("input[type=range]");
  if (slider) {
    const text = (which) => document.querySelector(which).textContent;
    const bar = document.querySelector(".timeline [data-tip]");
    bar.dispatchEvent(new PointerEvent("pointermove", {bubbles: true}));
    found.tip = text(".tip");
    slider.value = slider.max / 2;
    slider.dispatchEvent(new Event("input"));
    [found.at, found.said] = [text("[role=status]"), text(".moment")];
    [...document.querySelectorAll("button")].find((b) => b.textContent === "Next event").click();
    found.next = text("[role=status]");
    slider.value = slider.max;
    slider.dispatchEvent(new Event("input"));
    found.end = text(".moment");
  }
  const done = (violations) => parent.postMessage({...found, violations}, "*");
  if (!window.axe) return done(null);
  axe.run().then((r) => done(r.violations.map((v) => [v.id, v.impact, v.nodes[0].html.slice(0, 120)])),
                 (e) => done([["axe failed", "serious", String(e)]]));
});
</script>
"""
# Chromium's windows are at least 500 pixels wide, so pages are opened in frames.
FRAMES = """\
<pre id="found"></pre>
<script>
const found = [];
addEventListener("message", (m) => {
  const frames = [...document.querySelectorAll("iframe")];
  found[frames.findIndex((f) => f.contentWindow === m.source)] = m.data;
  if (frames.every((_, i) => found[i])) document.getElementById("found").textContent = JSON.stringify(found);
});
</script>
"""
WIDE, NARROW = (1400, 900), (390, 844)


def axe():
    """Returns the text of axe.min.js, or None."""
    for package, place in (("axe_core_python", "axe.min.js"),
                           ("axe_selenium_python", "node_modules/axe-core/axe.min.js")):
        spec = importlib.util.find_spec(package)
        if spec and spec.origin and (file := pathlib.Path(spec.origin).parent / place).exists():
            return file.read_text()
    return None


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("results.json", results(hierarchical=1, mpi=2))

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def report(self, *words, status=0):
        done = subprocess.run([TERRACE, "report", *map(str, words)], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def page(self, *files):
        self.report(*files, "-o", "page.html", "--force")
        return (self.folder / "page.html").read_text()

    def parts(self, page):
        return json.loads(re.search(r'id="parts">(.*?)</script>', page, re.S)[1])

    def page_of_machine(self, node, rack, core):
        self.write("cluster.yaml", CLUSTER % ("machine", node, rack, core))
        subprocess.run([TERRACE, "plan", "cluster.yaml", "-o", "machine.plan.yaml", "--force"], cwd=self.folder,
                       check=True, capture_output=True)
        return self.page("machine.plan.yaml")

    def page_of_suite(self):
        """Returns the page of a suite and the plan that it ran."""
        plan = ROOT / "tests/golden/uneven.plan.yaml"
        self.write("suite.json", suite(self.parts(self.page(plan))[0]["id"]))
        return self.page("suite.json", plan, "--bytes", "64K")  # a short timeline

    def page_of_calls(self):
        self.write("calls.json", calls())
        return self.page("calls.json")

    def opened(self, *pages, with_axe=False, sizes=(WIDE,), dark=False):
        """Opens each page in each size in Chromium. Returns LOOK's findings."""
        if not CHROMIUM:
            self.skipTest("chromium is not installed")
        code = axe() if with_axe else ""
        if code is None:
            self.skipTest("no axe-core: pip install axe-core-python")
        before = "<script>" + code.replace("</script", "<\\/script") + "</script>" if code else ""
        frames = FRAMES
        for number, page in enumerate(pages):
            self.write(f"opened{number}.html", page.replace("</body>", before + LOOK + "</body>"))
            for width, height in sizes:
                frames += (f'<iframe src="opened{number}.html" width="{width}" height="{height}" style="border: 0">'
                           "</iframe>\n")
        self.write("frames.html", frames)
        done = subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                               f"--user-data-dir={self.folder}/profile", "--window-size=1500,1000",
                               f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                               "--virtual-time-budget=40000", "--dump-dom", (self.folder / "frames.html").as_uri()],
                              text=True, capture_output=True, env={**os.environ, "HOME": str(self.folder)})
        found = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.S)
        self.assertTrue(found, done.stderr[-2000:])
        return json.loads(html.unescape(found[1]))

    def test_a_page_has_all_inside(self):
        page = self.page(ROOT / "tests/golden/uneven.plan.yaml", "results.json")
        self.assertEqual(re.findall(r"https?://\S+", page), [])
        self.assertEqual(re.findall(r"<(?:link|img|iframe|object)\b|\bsrc=|@import|url\(", page), [])
        self.assertIn("default-src 'none'", page)
        self.assertIn("made by terrace", page[:200])
        parts = self.parts(page)
        self.assertEqual([p["kind"] for p in parts], ["plan", "bench"])
        plan = parts[0]
        self.assertEqual(plan["machine"]["ranks"], 13)
        self.assertGreater(len(plan["call"]["stages"]), 0)
        self.assertGreater(len(plan["call"]["timeline"]["spans"]), 0)
        times = {s["name"]: s["times"] for s in plan["collectives"][0]["series"]}
        for ours, limit in zip(times["the plan"], plan["collectives"][0]["limits"]):
            self.assertGreaterEqual(ours, limit)

    def test_results_are_printed_without_a_page(self):
        text = self.report("results.json")
        for word in ("results.json", "allreduce", "hierarchical", "64 KiB"):
            self.assertIn(word, text)
        self.write("other.json", {"a": {"b": 1}, "calls": [{"name": "x </script> <!--", "n": 2}]})
        self.assertIn("a b: 1", self.report("other.json"))
        self.write("counts.json", {"rows": [
            {"call": "bcast", "bytes": 4096, "seconds": 0.002, "mpi_calls": 3}, {"call": "reduce", "bytes": 1 << 20}]})
        self.assertRegex(self.report("counts.json"),
                         r"(?s)call +bytes +seconds +mpi_calls.*bcast +4 KiB +2 ms +3\n.*reduce +1 MiB +- +-")
        self.assertIn('"numbers":[1,2,3]', self.page("counts.json").replace(" ", ""))
        self.assertNotIn("x </script>", self.page("other.json"))

    def test_statistics_say_when_and_why_the_plan_changed(self):
        (self.folder / "statistics").mkdir()
        self.write("statistics/a-0.0.json", {
            "terrace_statistics": 1, "communicator": "a-0", "host": "node0", "plan": "p", "rank": 0, "size": 2,
            "calls_per_slice": 1, "calls": [], "waits": [],
            "changes": [{"from_call": 17, "why": "a link is slow"}, {"from_call": 99, "why": "it is back"}]})
        self.assertRegex(self.report("statistics"), r"(?s)from_call +why.*17 +a link is slow\n.*99 +it is back\n")

    def test_measured_stands_beside_predicted(self):
        of_suite, plan = self.parts(self.page_of_suite())
        measured, predicted = of_suite["collectives"][0], plan["collectives"][0]
        self.assertEqual([s["name"] for s in measured["series"]],
                         ["hierarchical", "predicted", "flat-ring", "mpi", "mpi, its ring"])
        for bytes, time in zip(measured["sizes"], measured["series"][1]["times"]):
            self.assertEqual(time, predicted["series"][0]["times"][predicted["sizes"].index(bytes)])
        self.assertEqual(measured["comparison"]["columns"], [
            "size", "measured", "predicted", "measured / predicted", "of limit", "limit", "half of all", "flat-ring",
            "mpi", "mpi, its ring"])
        row = measured["comparison"]["rows"][2]
        self.assertEqual(row[:2] + row[4:],
                         ["1 MiB", "1.024 ms", "50 %", "512 us", "921.6 us to 1.229 ms", "3.00x", "2.00x", "4.00x"])
        self.assertEqual(row[3], f"{1.024e-3 / measured['series'][1]['times'][2]:.2f}x")
        self.assertIn("Without HAN", of_suite["notes"][0])
        alone = self.parts(self.page("suite.json"))[0]  # nothing is predicted without the plan
        self.assertNotIn("predicted", alone["collectives"][0]["comparison"]["columns"])
        self.assertIn("no plan on this page", alone["notes"][0])

    def test_the_page_of_the_drop_in_begins_with_a_summary(self):
        page = self.page_of_calls()
        part = self.parts(page)[0]
        self.assertEqual(part["kind"], "drop-in")
        self.assertIn("ran 9 of 20 calls, which took 3.5 s in all, 250 ms of it in trials. It saved 1.5 s",
                      part["summary"])
        self.assertEqual([r[:6] + r[8:10] for r in part["rows"]],
                         [["allreduce", "world", "1 MiB to 2 MiB", "10", "3 s", "9", "-500 ms", ""],
                          ["bcast", "world", "1 MiB to 2 MiB", "10", "500 ms", "0", "-", "mpi is faster 10"]])
        self.assertEqual(part["shares"][0], ["allreduce of 1 MiB to 2 MiB, world", 2.0, 1.0])
        [found] = self.opened(page)
        self.assertEqual(found["rows"]["calls0"], 6)  # two tables of two rows
        self.assertLessEqual(found["overflow"], 0)

    def test_a_page_without_a_timeline_says_why(self):
        one, large = self.page_of_machine(1, 1, 1), self.page_of_machine(8, 32, 1024)
        for page, why in (one, "one rank sends nothing"), (large, "even 1 KiB takes more than 1 million steps"):
            call = self.parts(page)[0]["call"]
            self.assertNotIn("timeline", call)
            self.assertIn(why, call["note"])
        shorter = self.parts(self.page_of_machine(8, 32, 8))[0]["call"]  # of a shorter call than asked for
        self.assertIn("timeline", shorter)
        self.assertIn("64 MiB takes more than", shorter["note"])

    def test_refuses(self):
        plan = ROOT / "tests/golden/uneven.plan.yaml"
        self.assertIn("-o report.html", self.report(plan, status=2))
        self.write("bad.json", '{"a": ')
        self.assertIn("bad.json: is no JSON", self.report("bad.json", status=2))
        self.write("mine.html", "mine")
        self.assertIn("mine.html", self.report("results.json", "-o", "mine.html", status=2))

    def test_a_page_opens_and_loads_nothing(self):
        page = self.page(ROOT / "tests/golden/uneven.plan.yaml", "results.json")
        for size, found in zip((WIDE, NARROW), self.opened(page, sizes=(WIDE, NARROW))):
            self.assertEqual(found["loaded"], [])
            self.assertEqual(found["width"], size[0])
            self.assertLessEqual(found["overflow"], 0, size)
            self.assertGreater(found["rows"]["machine0"], 3)
            self.assertGreater(found["rows"]["rules0"], 5)
            self.assertGreater(found["rows"]["call0"], 3)
            self.assertGreater(found["rows"]["results1"], 6)

    def test_the_timeline_says_what_happens(self):
        [found] = self.opened(self.page(ROOT / "tests/golden/uneven.plan.yaml", "--bytes", "64K"))
        self.assertRegex(found["tip"], r"^chunk \d+ on rank 0: 1\. node \S+ \S+, 0 s to [\d.]+ us$")
        self.assertRegex(found["said"], r"rank 0node 0, rack 0.*: chunk \d.*rank 12node 4, rack 1.* % busy")
        self.assertRegex(found["at"], r"^At [\d.]+ ms:$")
        self.assertNotEqual(found["next"], found["at"])
        self.assertEqual(found["end"].count("nothing: it waits, or is done"), 8)

    def test_axe_finds_nothing_serious(self):
        pages = [self.page_of_suite(), self.page_of_calls(), self.page_of_machine(8, 4, 2), self.page("results.json")]
        for dark in False, True:
            for found in self.opened(*pages, with_axe=True, sizes=(WIDE, NARROW), dark=dark):
                self.assertEqual(found["dark"], dark)
                self.assertLessEqual(found["overflow"], 0)
                self.assertEqual([v for v in found["violations"] if v[1] in ("serious", "critical")], [])

    # Asserts the number of elements, which decides how long the page takes, and no time.
    def test_65536_ranks_draw_little(self):
        page = self.page_of_machine(8, 32, 256)
        self.assertLess(len(page), 1 << 20)
        [found] = self.opened(page)
        print(f"65,536 ranks: {found['nodes']} elements, {found['ms']:.0f} ms", file=sys.stderr)
        self.assertEqual(found["loaded"], [])
        self.assertLess(found["nodes"], 20_000)


if __name__ == "__main__":
    unittest.main(verbosity=2)

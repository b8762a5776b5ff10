#!/usr/bin/env python3
"""terrace report: pages with all that they need inside. Where Debian's Chromium is installed they are opened in it, and
where a Python package has axe-core, that looks for what people with other needs could not use.

usage: report_test.py TERRACE SOURCE_ROOT [TEST]
"""
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
RESULTS = {"terrace_bench": 1, "made_by": "terrace-bench 0.1.0", "plan_id": "x", "ranks": 8, "results": [
    {"algorithm": name, "collective": "allreduce", "bytes": bytes, "time_us": time * bytes / 1024, "ratio": None,
     "percent_of_limit": 50.0, "wrong": 0}
    for name, time in (("hierarchical", 1.0), ("mpi", 2.0)) for bytes in (4096, 65536, 1048576)]}
# Runs behind the page's own scripts, and tells the frame around the page what it finds.
LOOK = """
<script>
addEventListener("load", () => {
  for (const closed of document.querySelectorAll("details")) closed.open = true;
  const found = {loaded: performance.getEntriesByType("resource").map((r) => r.name), rows: {},
                 nodes: document.querySelectorAll("*").length, height: document.documentElement.scrollHeight,
                 width: innerWidth, overflow: document.documentElement.scrollWidth - innerWidth, ms: performance.now()};
  for (const s of document.querySelectorAll("section")) found.rows[s.id] = s.querySelectorAll("tr").length;
  const slider = document.querySelector("input[type=range]");
  if (slider) {
    slider.value = 500;
    slider.dispatchEvent(new Event("input"));
    found.said = document.querySelector("[role=status]").textContent;
  }
  const done = (violations) => parent.postMessage({...found, violations}, "*");
  if (!window.axe) return done(null);
  axe.run().then((r) => done(r.violations.map((v) => [v.id, v.impact, v.nodes[0].html.slice(0, 120)])),
                 (e) => done([["axe failed", "serious", String(e)]]));
});
</script>
"""
# Chromium has no window below 500 pixels.
FRAME = """\
<pre id="found"></pre>
<script>
addEventListener("message", (m) => { document.getElementById("found").textContent = JSON.stringify(m.data); });
</script>
<iframe src="opened.html" width="%d" height="%d" style="border: 0"></iframe>
"""


def axe():
    """The text of axe.min.js, or nothing."""
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
        (self.folder / "results.json").write_text(json.dumps(RESULTS))

    def report(self, *words, status=0):
        done = subprocess.run([TERRACE, "report", *map(str, words)], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def page(self, *files):
        self.report(*files, "-o", "page.html", "--force")
        return (self.folder / "page.html").read_text()

    def opened(self, page, with_axe=False, size=(1400, 900)):
        """What LOOK found of it in Chromium, in a frame of so many pixels."""
        if not CHROMIUM:
            self.skipTest("chromium is not installed")
        code = axe() if with_axe else ""
        if code is None:
            self.skipTest("no axe-core: pip install axe-core-python")
        before = "<script>" + code.replace("</script", "<\\/script") + "</script>" if code else ""
        (self.folder / "opened.html").write_text(page.replace("</body>", before + LOOK + "</body>"))
        file = self.folder / "frame.html"
        file.write_text(FRAME % size)
        done = subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                               f"--user-data-dir={self.folder}/profile", "--window-size=1500,1000",
                               "--virtual-time-budget=20000", "--dump-dom", file.as_uri()],
                              text=True, capture_output=True, timeout=120, env={**os.environ, "HOME": str(self.folder)})
        found = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.S)
        self.assertTrue(found, done.stderr[-2000:])
        text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
        return json.loads(text)

    def test_a_page_has_all_inside(self):
        page = self.page(ROOT / "tests/golden/uneven.plan.yaml", "results.json")
        self.assertEqual(re.findall(r"https?://\S+", page), [])
        self.assertEqual(re.findall(r"<(?:link|img|iframe|object)\b|\bsrc=|@import|url\(", page), [])
        self.assertIn("default-src 'none'", page)
        self.assertIn("made by terrace", page[:200])
        parts = json.loads(re.search(r'id="parts">(.*?)</script>', page, re.S)[1])
        self.assertEqual([p["kind"] for p in parts], ["plan", "bench"])
        plan = parts[0]
        self.assertEqual(plan["machine"]["ranks"], 13)
        self.assertGreater(len(plan["call"]["stages"]), 0)
        self.assertGreater(len(plan["call"]["timeline"]["spans"]), 0)
        times = {s["name"]: s["times"] for s in plan["collectives"][0]["series"]}
        for size, ours, limit in zip(plan["collectives"][0]["sizes"], times["the plan"], times["limit"]):
            self.assertGreaterEqual(ours, limit, size)

    def test_results_are_printed_without_a_page(self):
        text = self.report("results.json")
        for word in ("results.json", "allreduce", "hierarchical", "64 KiB"):
            self.assertIn(word, text)
        (self.folder / "other.json").write_text('{"a": {"b": 1}, "calls": [{"name": "x </script> <!--", "n": 2}]}')
        self.assertIn("a b: 1", self.report("other.json"))
        (self.folder / "counts.json").write_text(json.dumps({"rows": [
            {"call": "bcast", "bytes": 4096, "seconds": 0.002, "mpi_calls": 3}, {"call": "reduce", "bytes": 1 << 20}]}))
        self.assertRegex(self.report("counts.json"),
                         r"(?s)call +bytes +seconds +mpi_calls.*bcast +4 KiB +2 ms +3\n.*reduce +1 MiB +- +-")
        self.assertIn('"numbers":[1,2,3]', self.page("counts.json").replace(" ", ""))
        self.assertNotIn("x </script>", self.page("other.json"))

    def test_the_page_of_the_drop_in_begins_with_a_summary(self):
        row = {"communicator": "world", "calls": 10, "bytes_from": 1 << 20, "bytes_to": (2 << 20) - 1,
               "saved_seconds": None, "passed": "", "algorithm": None}
        (self.folder / "calls.json").write_text(json.dumps({
            "terrace_report": 1, "terrace": "0.1.0", "mpi": "MPI", "ranks": 8, "of_all_ranks": True, "calls": 20,
            "terrace_calls": 9, "seconds": 3.5, "trial_seconds": 0.25, "saved_seconds": 1.5, "rows": [
                {"call": "bcast", "seconds": 0.5, "terrace_calls": 0, **row},
                {"call": "allreduce", "seconds": 3.0, "terrace_calls": 9, **row}]}))
        page = self.page("calls.json")
        part = json.loads(re.search(r'id="parts">(.*?)</script>', page, re.S)[1])[0]
        self.assertEqual(part["kind"], "drop-in")
        self.assertIn("ran 9 of 20 calls, which took 3.5 s in all, 250 ms of it in trials. It saved 1.5 s",
                      part["summary"])
        self.assertEqual([r[:6] for r in part["rows"]],
                         [["allreduce", "world", "1 MiB to 2 MiB", "10", "3 s", "9"],
                          ["bcast", "world", "1 MiB to 2 MiB", "10", "500 ms", "0"]])
        found = self.opened(page)
        self.assertEqual(found["rows"]["calls0"], 6)  # two tables of two rows
        self.assertLessEqual(found["overflow"], 0)

    def test_refuses(self):
        plan = ROOT / "tests/golden/uneven.plan.yaml"
        self.assertIn("-o report.html", self.report(plan, status=2))
        (self.folder / "bad.json").write_text('{"a": ')
        self.assertIn("bad.json: is no JSON", self.report("bad.json", status=2))
        (self.folder / "mine.html").write_text("mine")
        self.assertIn("mine.html", self.report("results.json", "-o", "mine.html", status=2))

    def test_a_page_opens_and_loads_nothing(self):
        for size in ((1400, 900), (390, 844)):
            found = self.opened(self.page(ROOT / "tests/golden/uneven.plan.yaml", "results.json"), size=size)
            self.assertEqual(found["loaded"], [])
            self.assertEqual(found["width"], size[0])
            self.assertLessEqual(found["overflow"], 0, size)
            self.assertGreater(found["rows"]["machine0"], 3)
            self.assertGreater(found["rows"]["rules0"], 5)
            self.assertGreater(found["rows"]["call0"], 3)
            self.assertGreater(found["rows"]["results1"], 6)
            self.assertIn("rank 0", found["said"])

    def test_axe_finds_nothing_serious(self):
        page = self.page(ROOT / "tests/golden/uneven.plan.yaml", "results.json", "--bytes", "64K")  # a short timeline
        found = self.opened(page, with_axe=True)
        self.assertEqual([v for v in found["violations"] if v[1] in ("serious", "critical")], [])

    # No time is asserted; what takes time is how much a page draws.
    def test_65536_ranks_draw_little(self):
        (self.folder / "cluster.yaml").write_text(
            "terrace_topology: 1\nname: large\nlevels:\n"
            "  - {name: node, size: 8, fabric: nvlink, bandwidth: 450 GB/s}\n"
            "  - {name: rack, size: 32, fabric: infiniband, bandwidth: 50 GB/s}\n"
            "  - {name: core, size: 256, fabric: infiniband, bandwidth: 800 GB/s}\n")
        subprocess.run([TERRACE, "plan", "cluster.yaml", "-o", "large.plan.yaml"], cwd=self.folder, check=True,
                       capture_output=True)
        page = self.page("large.plan.yaml")
        self.assertLess(len(page), 1 << 20)
        found = self.opened(page)
        print(f"65,536 ranks: {found['nodes']} elements, {found['ms']:.0f} ms", file=sys.stderr)
        self.assertEqual(found["loaded"], [])
        self.assertLess(found["nodes"], 20_000)


if __name__ == "__main__":
    unittest.main(verbosity=2)

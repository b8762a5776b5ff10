#!/usr/bin/env python3
"""The site that tools/site builds: no warning, no dead link, nothing from other hosts, readable on every screen.

usage: site_test.py SOURCE_ROOT

Requires TERRACE_TEST_ALL=1, Doxygen and access to PyPI; otherwise it is skipped, with exit status 77.
The test in a browser is skipped without chromium. TERRACE_TEST_PICTURES=DIR keeps a picture of each page.
"""
import functools
import html.parser
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest
import urllib.parse

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
SITE = ROOT / "build/site"
TOOLS = ROOT / "build/site-tools"
CHROMIUM = shutil.which("chromium")
LOOKED_AT = ["index.html", "guides/getting-started.html", "reference/command-line.html", "performance.html",
             "collectives/allreduce.html", "source/index.html", "api/index.html",
             "api/classterrace_1_1communicator.html", "api/terrace_8h.html"]


class References(html.parser.HTMLParser):
    """Anchors, links and loaded resources of a page."""

    def __init__(self, page):
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, [], []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values.get("id"), values.get("name")}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("link", "script", "img", "iframe", "source") and values.get("rel") != "canonical":
            self.loaded += [values[key] for key in ("src", "href") if key in values]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    def test_links_and_anchors_exist_and_nothing_is_loaded_from_elsewhere(self):
        pages = {page: References(page) for page in SITE.rglob("*.html") if page.name != "404.html"}
        self.assertGreater(len(pages), 100)
        dead = []
        for page, found in pages.items():
            for link in [*found.links, *found.loaded]:
                url = urllib.parse.urlsplit(link)
                if url.scheme or url.netloc:
                    dead += [f"{page.relative_to(SITE)} loads {link}"] * (link in found.loaded and url.scheme != "data")
                    continue
                target = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
                target = target / "index.html" if target.is_dir() else target
                anchors = pages[target].anchors if target in pages else {""}
                if not target.exists() or target in pages and urllib.parse.unquote(url.fragment) not in anchors:
                    dead.append(f"{page.relative_to(SITE)}: {link}")
        self.assertEqual(sorted(set(dead)), [])

    @unittest.skipUnless(CHROMIUM, "chromium is not installed")
    def test_pages_are_readable_in_a_browser(self):
        subprocess.run([TOOLS / "bin/pip", "install", "-q", "playwright==1.65.2", "axe-core-python==0.1.0"], check=True)
        [packages] = TOOLS.glob("lib/python*/site-packages")
        sys.path.append(str(packages))
        from playwright.sync_api import sync_playwright
        axe = (packages / "axe_core_python/axe.min.js").read_text()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}/"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for scheme, width, scripts in [("light", 1400, True), ("dark", 1400, True), ("light", 390, True),
                                           ("light", 390, False)]:
                context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 844},
                                              java_script_enabled=scripts)
                tab, asked = context.new_page(), []
                tab.on("request", lambda request, asked=asked: asked.append(request.url))
                for name in LOOKED_AT:
                    with self.subTest(page=name, scheme=scheme, width=width, scripts=scripts):
                        tab.goto(here + name)
                        if shots := os.environ.get("TERRACE_TEST_PICTURES"):
                            tab.screenshot(path=f"{shots}/{name.replace('/', '-')}-{scheme}-{width}-{scripts}.png")
                        self.assertGreater(len(tab.inner_text("body").split()), 100)
                        root = tab.locator("html")
                        self.assertLessEqual(root.evaluate("e => e.scrollWidth"), width)
                        if scripts:
                            tab.evaluate(axe)
                            found = tab.evaluate("axe.run().then(r => r.violations.map("
                                                 "v => [v.id, v.impact, v.nodes.length, v.nodes[0].html.slice(0, 150)]))")
                            self.assertEqual([v for v in found if v[1] in ("serious", "critical")], [])
                self.assertEqual([url for url in asked if not url.startswith((here, "data:"))], [])
                if scripts and width > 390:
                    tab.goto(here + "index.html")
                    tab.fill(".md-search__input", "allreduce")
                    tab.wait_for_selector(".md-search-result__link")


if __name__ == "__main__":
    if "TERRACE_TEST_ALL" not in os.environ:
        print("left out: the site (TERRACE_TEST_ALL=1)")
        sys.exit(77)
    built = subprocess.run([ROOT / "tools/site"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(built.stdout)
    if built.returncode == 2:
        print("left out: Doxygen or PyPI is missing")
        sys.exit(77)
    if built.returncode != 0:
        sys.exit("tools/site warns")
    unittest.main(verbosity=2)

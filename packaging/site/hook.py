"""Hook of MkDocs: adds to the site what docs/ alone does not say."""
import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def name_on_site(path):
    """The path on the site of a file or directory of the tree: what is not in docs/ is below source/."""
    if path.is_relative_to(DOCS) and not path.is_relative_to(DOCS / "examples") and path.is_file():
        return path.relative_to(DOCS)
    if path.is_dir() and (path / "README.md").exists():
        return name_on_site(path / "README.md")
    ending = "" if path.suffix == ".md" else ".txt"
    return pathlib.Path("source") / path.relative_to(ROOT).with_name(path.name + ending)


def path_in_tree(name):
    return ROOT / name.relative_to("source") if name.parts[0] == "source" else DOCS / name


def slug(heading, separator):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config):
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
    config.site_name += " " + version
    config.extra_css.append("style.css")
    config.mdx_configs["toc"]["slugify"] = slug
    config.nav = ["README.md"]
    for section in re.split(r"^## ", (DOCS / "README.md").read_text(), flags=re.M)[1:]:
        title, text = section.split("\n", 1)
        pages = [{re.sub(r"\s+", " ", words): name_on_site((DOCS / link).resolve()).as_posix()}
                 for words, link in re.findall(r"\[([^]]+)\]\(([^)#]+)\)", text)]
        config.nav.append({title: pages})
    config.nav.append({"API reference": "api/index.html"})
    return config


def on_files(files, config):
    """Adds the files outside docs/ that pages link to, and those that these link to."""
    files.append(File.generated(config, "style.css", abs_src_path=str(pathlib.Path(__file__).with_name("style.css"))))
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for link, _ in LINK.findall(page.read_text()):
            path = (page.parent / link).resolve()
            name = name_on_site(path).as_posix()
            if path.is_relative_to(ROOT) and not files.get_file_from_path(name):
                if path.is_dir() and not name.endswith(".md"):
                    text = "".join(sorted(f"{entry.name}{'/' * entry.is_dir()}\n" for entry in path.iterdir()))
                else:
                    path = path / "README.md" if path.is_dir() else path
                    text = path.read_text()
                files.append(File.generated(config, name, content=text))
                if name.endswith(".md"):
                    waiting.append(path)
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links to files of the tree into links to their copies on the site."""
    here = pathlib.Path(page.file.src_uri)

    def on_site(link):
        name = name_on_site((path_in_tree(here).parent / link[1]).resolve())
        return f"]({os.path.relpath(name, here.parent)}{link[2] or ''})"

    return indented(LINK.sub(on_site, markdown))


def indented(markdown):
    """Indents parts of items of numbered lists by four columns, as Python-Markdown wants; three do on GitHub."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else re.sub(r"^   (?=.)", "    ", part, flags=re.M) for part in parts)


def on_post_page(output, page, config):
    """Names the dialog of the search, which Material leaves without a name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')

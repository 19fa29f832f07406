"""site_hooks.py: mkdocs hooks that make links of docs/ to other files of the repository work on the site.

GitHub shows a file outside docs/ that a page links to. The site gets a copy of each such file, below source/."""

import atexit
import posixpath
import re
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?\)")


def slug(heading, separator):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def in_site(path):
    return f"source/{path}" if Path(path).suffix in (".svg", ".png", ".json", ".html") else f"source/{path}.txt"


def outside(page, link):
    """The file outside docs/ that a link of a page points to, or None."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if target.startswith("docs/") or not (ROOT / target).is_file() else target


def on_files(files, config):
    from mkdocs.structure.files import File  # imported here, because tests use slug without mkdocs

    copies = tempfile.mkdtemp(prefix="weir-site-")
    atexit.register(shutil.rmtree, copies, ignore_errors=True)
    for page in files.documentation_pages():
        for match in LINK.finditer(Path(page.abs_src_path).read_text(encoding="utf-8")):
            target = outside(page.src_uri, match[2])
            if target and not files.get_file_from_path(in_site(target)):
                place = Path(copies, in_site(target))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / target, place)
                files.append(File(in_site(target), copies, config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, **_):
    def link(match):
        target = outside(page.file.src_uri, match[2])
        folder = posixpath.dirname(page.file.src_uri) or "."
        return f"{match[1]}{posixpath.relpath(in_site(target), folder)})" if target else match[0]

    return LINK.sub(link, markdown)

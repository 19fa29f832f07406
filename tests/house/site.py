#!/usr/bin/env python3
"""Links between the documents work: in Markdown on a forge, and in the site that mkdocs builds from docs/.

    site.py PLACE

PLACE is where the site is built. On a forge, each link leads to a file, and its anchor to a heading. The navigation has
each page of docs/. The site builds without a warning, each of its links leads somewhere, a browser loads nothing from
other servers, and the search index has each page's title."""

import html.parser
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from scripts.site_hooks import slug

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


def pages():
    listing = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard", "*.md"],
                             capture_output=True, check=True).stdout.decode()
    return sorted(name for name in listing.split("\0") if name and (ROOT / name).is_file())


def prose(name):
    """(number, line) outside fenced blocks and comments."""
    fence = None
    comment = False
    for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence):
                fence = None
        elif comment:
            comment = "-->" not in line
        elif match:
            fence = match[1]
        elif line.lstrip().startswith("<!--") and "-->" not in line:
            comment = True
        else:
            yield number, line


def anchors(name):
    seen = {}
    for _, line in prose(name):
        match = HEADING.match(line)
        if match:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").replace("*", "")
            base = slug(text, "-")
            again = seen.get(base, 0)
            seen[base] = again + 1
            yield f"{base}-{again}" if again else base


def forge_faults():
    known = {name: set(anchors(name)) for name in pages()}
    for name in known:
        for number, line in prose(name):
            for match in LINK.finditer(re.sub(r"`[^`]*`", "``", line)):
                target = urlsplit(match[1])
                if target.scheme or target.netloc:
                    continue
                path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(target.path))) if target.path else name
                if not (ROOT / path).is_file():
                    yield f"{name}:{number}: {match[1]}: no such file"
                elif target.fragment and target.fragment not in known.get(path, ()):
                    yield f"{name}:{number}: {match[1]}: no such heading"


def navigation_faults():
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r": (\S+\.md)$", config, re.MULTILINE))
    there = {name.removeprefix("docs/") for name in pages() if name.startswith("docs/") and not name.startswith("docs/plots/")}
    for name in sorted(there - listed):
        yield f"docs/{name}:1: not in the navigation of mkdocs.yml"
    for name in sorted(listed - there):
        yield f"mkdocs.yml: docs/{name}: no such page"


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("id"):
            self.ids.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in LOADED and values.get(LOADED[tag]) and values.get("rel") != "canonical":
            self.loaded.append(values[LOADED[tag]])


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def site_faults(site):
    read_pages = {path: read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html" and "source" not in path.relative_to(site).parts}
    for path, reader in read_pages.items():
        name = path.relative_to(site)
        for link in reader.links + reader.loaded:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                if link in reader.loaded:
                    yield f"site {name}: loads {link} from elsewhere"
                continue
            place = Path(os.path.normpath(path.parent / unquote(target.path))) if target.path else path
            if place.is_dir():
                place /= "index.html"
            if not place.is_file():
                yield f"site {name}: {link}: not there"
            elif target.fragment and place in read_pages and unquote(target.fragment) not in read_pages[place].ids:
                yield f"site {name}: {link}: no such anchor"
    for style in site.rglob("*.css"):
        if re.search(r"url\(['\"]?https?:|@import\s+['\"]https?:", style.read_text(encoding="utf-8")):
            yield f"site {style.relative_to(site)}: loads something from elsewhere"
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].split("#")[0] for entry in index["docs"]}
    for path in read_pages:
        if str(path.relative_to(site)) not in found and path.name != "index.html":
            yield f"site {path.relative_to(site)}: search does not find it"


def main(place):
    site = Path(place).resolve()
    faults = [*forge_faults(), *navigation_faults()]
    shutil.rmtree(site, ignore_errors=True)
    built = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)], cwd=ROOT, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1"), check=False)
    if built.returncode:
        faults.append(f"mkdocs fails\n{built.stdout}")
    else:
        faults += site_faults(site)
    print("\n".join(faults) or f"site: {len(pages())} pages, all links lead somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

#!/usr/bin/env python3
"""ARCHITECTURE.md is short and has a section "Where is...?". Every path in it, CONTRIBUTING.md, SECURITY.md and
docs/internals/*.md exists. A file in src or tests names each page of docs/internals.

    architecture_paths.py [ROOT]

A path is a text in backticks (of a command, its first word) that begins with a folder of the repository or is a file
name with an extension of SUFFIXES. A path with a folder is relative to the root; `*` must match something. A file name
alone must be the name of some file. The target of a link is relative to its page. In ``` blocks, words that begin with
a folder are paths, too."""

import re
import sys
from pathlib import Path

MAP_BYTES_MAX = 8192
FOLDERS = ("bench", "bindings", "deploy", "docs", "examples", "include", "page", "scripts", "src", "tests")
SUFFIXES = ("build", "c", "h", "js", "json", "lua", "md", "pml", "py", "sh", "vec", "yaml", "yml")
PATH = re.compile(rf"(?:\./)?((?:{'|'.join(FOLDERS)})/[\w.*/-]*)")
NAME = re.compile(rf"[\w-]+\.(?:{'|'.join(SUFFIXES)})")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
HEADING = re.compile(r"#+\s.*\bwhere is\b", re.IGNORECASE)


def pages(root):
    return [root / "ARCHITECTURE.md", root / "CONTRIBUTING.md", root / "SECURITY.md", *sorted((root / "docs/internals").glob("*.md"))]


def words(text):
    """(line number, word) of all words that may be a path."""
    is_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_block = not is_block
        for quoted in line.split() if is_block else re.findall(r"`([^`]+)`", line):
            yield number, (quoted.split() or [""])[0].rstrip(",;:")


def exists(root, names, word):
    """Whether the path exists. None: the word is not a path."""
    path = PATH.fullmatch(word)
    if path:
        return any(root.glob(path[1].rstrip("/"))) if "*" in path[1] else (root / path[1]).exists()
    if NAME.fullmatch(word):
        return word in names
    return None


def faults_of(root, page, names):
    """The faults of a page, and how many paths it names."""
    text, faults, checked = page.read_text(encoding="utf-8"), [], 0
    name = page.relative_to(root)
    for number, word in words(text):
        found = exists(root, names, word)
        checked += found is not None
        if found is False:
            faults.append(f"{name}:{number}: {word}: not found")
    for match in LINK.finditer(text):
        checked += 1
        if not (page.parent / match[1]).exists():
            faults.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]}: not found")
    return faults, checked


def faults_of_map(root):
    content = (root / "ARCHITECTURE.md").read_bytes()
    if len(content) > MAP_BYTES_MAX:
        yield f"ARCHITECTURE.md: {len(content)} bytes; at most {MAP_BYTES_MAX}, move the rest to docs/internals"
    if not any(HEADING.match(line) for line in content.decode("utf-8").splitlines()):
        yield 'ARCHITECTURE.md: no section "Where is...?"'


def faults_of_links(root):
    """A source, test or meson.build must name each page of docs/internals."""
    files = [file for folder in ("src", "tests") for ending in ("*.[ch]", "meson.build") for file in (root / folder).rglob(ending)]
    sources = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for page in sorted((root / "docs/internals").glob("*.md")):
        if str(page.relative_to(root)) not in sources:
            yield f"{page.relative_to(root)}:1: no file in src or tests names this page"


def main(root):
    names = {file.name for folder in FOLDERS for file in (root / folder).rglob("*")} | {file.name for file in root.iterdir()}
    faults, checked = [*faults_of_map(root), *faults_of_links(root)], 0
    for page in pages(root):
        of_page, n = faults_of(root, page, names)
        faults += of_page
        checked += n
    print("\n".join(faults) or f"architecture: {checked} paths, all there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))

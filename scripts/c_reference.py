#!/usr/bin/env python3
"""Writes the C API reference from include/weir: docs/reference/c.md, and a page for each header in docs/reference/c.

    c_reference.py            write the pages
    c_reference.py --check    fail if a page is stale

The headers are the manual: each declaration has a plain comment before it that reads as prose. This script only arranges them.
It is not Doxygen, because Doxygen needs marks (@param, @return) in comments that people read in their editor, and a package
to build with. The price is that a header must keep to a simple form:

- The file begins with a comment: "NAME.h: what it is." and then more paragraphs.
- A comment belongs to the declarations that follow it, up to the next empty line.
- An indented paragraph of a comment is code, and a line that begins with "- " is an item of a list.
- A comment "--- title ---" begins a section, and "Title. Text", of one word or "When full", a paragraph with that title.
- Comments inside a struct or an enum stay where they are."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADERS = ROOT / "include" / "weir"
INDEX, FOLDER = ROOT / "docs" / "reference" / "c.md", ROOT / "docs" / "reference" / "c"
MADE = "<!-- made from include/weir by ./dev docs: change the header instead -->\n"
WIDTH = 100

# The order of the index: headers that most programs need come first.
GROUPS = [
    ("Decide", ["weir.h", "limiter.h", "table.h", "store.h"]),
    ("Policies and Redis", ["policy.h", "guard.h", "redis.h"]),
    ("Limits, verdicts and times", ["limit.h", "verdict.h", "types.h", "clock.h"]),
    ("Waiting", ["queue.h", "canceller.h"]),
    ("The arithmetic alone", ["plan.h", "step.h"]),
]
INTRO = """# C API

The headers in [`include/weir`](../../include/weir/weir.h) are the manual of the C library. These pages have the same text, with
links. They are generated, so they are never older than the headers.

Compile with the flags of `pkg-config`:

```sh
cc program.c $(pkg-config --cflags --libs weir)
```

`policy.h` and `guard.h` need `weir-policy`, and Redis needs `weir-redis`. See [One API for tables and Redis](../guides/c-store.md).
If you are new here, start with [limits for many keys](../guides/c-table.md).
"""


class Item:
    """Declarations that share a comment, or a comment without declarations."""

    def __init__(self, comment):
        self.comment, self.declarations = comment, []

    def names(self):
        return [name for name in map(name_of, self.declarations) if name]


# --- reading ----------------------------------------------------------------------------------------------------

def without_wrapping(text):
    """The header without its guard, its includes and its lines for C++ and compilers."""
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#if defined\(.*?^#endif\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#ifndef (WEIR_\w+_H)\n#define \1\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^#(include|endif).*\n", "", text, flags=re.MULTILINE)


def comment_lines(comment):
    """The lines of a comment without /* and *. Keeps the indentation."""
    body = comment.strip()[2:-2].rstrip()
    return [re.sub(r"^\s*\* ?", "", line) if number else line.strip() for number, line in enumerate(body.split("\n"))]


def take_declaration(lines, at):
    """(the declaration that begins at a line, the line after it)"""
    if lines[at].startswith("#"):
        end = at
        while lines[end].endswith("\\"):
            end += 1
        return lines[at:end + 1], end + 1
    depth, end = 0, at
    while True:
        code = re.sub(r"/\*.*?(\*/|$)", "", lines[end]) if not lines[end].lstrip().startswith("*") else ""
        depth += code.count("{") - code.count("}")
        if depth == 0 and code.rstrip().endswith((";", "}")):
            return lines[at:end + 1], end + 1
        end += 1
        if end == len(lines):
            raise SystemExit(f"unterminated declaration: {lines[at]}")


def read(header):
    """(the opening comment, the items) of a header."""
    lines = without_wrapping(header.read_text(encoding="utf-8")).split("\n")
    opening, items, open_item, at = None, [], None, 0
    while at < len(lines):
        if not lines[at].strip():
            open_item, at = None, at + 1
        elif lines[at].startswith("/*"):
            end = at
            while "*/" not in lines[end]:
                end += 1
            comment = comment_lines("\n".join(lines[at:end + 1]))
            at = end + 1
            if opening is None:
                opening = comment
            else:
                open_item = Item(comment)
                items.append(open_item)
        else:
            declaration, at = take_declaration(lines, at)
            if open_item is None:
                open_item = Item([])
                items.append(open_item)
            open_item.declarations.append(declaration)
    if opening is None or not opening[0].startswith(header.name + ": "):
        raise SystemExit(f"{header}: begin the file with a comment \"{header.name}: what it is.\"")
    return opening, items


# --- declarations -----------------------------------------------------------------------------------------------

def is_function(declaration):
    return not re.match(r"#|typedef\b|(struct|enum)\b[^(]*(\{|;)", declaration[0])


def name_of(declaration):
    first = " ".join(line.strip() for line in declaration).split(" /*")[0]
    for pattern in (r"#define (\w+)", r"(?:typedef )?((?:struct|enum|union) \w+)\s*[{;]", r"typedef .*?\b(\w+)(?:\(.*|;)$",
                    r"[^(]*?\b(\w+)\("):
        match = re.match(pattern, first)
        if match:
            return match[1]
    match = re.search(r"\bWEIR_\w+", " ".join(declaration))  # an enum without a name
    return match[0].rpartition("_")[0] + "_ flags" if match else None


def code_of(declaration):
    """A prototype, wrapped to WIDTH; any other declaration as in the header."""
    if not is_function(declaration) and "(" not in declaration[0].partition("typedef")[2]:
        shown = [line for line in declaration if not re.match(r"#(define|undef) \w+_ENUM", line)]
        return "\n".join(line.expandtabs(8).rstrip("\\").rstrip() for line in shown)
    text = re.sub(r"\s+", " ", " ".join(declaration)).strip()
    text = re.sub(r"^(static inline|WEIR_API) ", "", re.sub(r" \{.*\}$", ";", text))
    head, bracket, arguments = text.partition("(")
    line, rows = head + bracket, []
    for number, argument in enumerate(arguments.split(", ")):
        piece = argument if line.endswith("(") else " " + argument
        piece += "" if number == arguments.count(", ") else ","
        if len(line) + len(piece) > WIDTH and not line.endswith("("):
            rows.append(line)
            line, piece = " " * len(head + bracket), piece.strip()
        line += piece
    return "\n".join([*rows, line])


def rows_of_list(declaration):
    """The rows X(name, value, "meaning") of a macro, or an empty list."""
    return re.findall(r'X\((\w+), (-?\w+), "([^"]*)"\)', " ".join(declaration))


# --- prose ------------------------------------------------------------------------------------------------------

def paragraphs(lines):
    """(kind, lines) of a comment, where kind is "prose", "code" or "list"."""
    found = []
    for line in lines:
        kind = "code" if line.startswith("    ") else "list" if line.startswith("- ") else None
        if not line.strip():
            found.append(("gap", []))
        elif kind == "code" and len(found) > 1 and found[-1][0] == "gap" and found[-2][0] == "code":
            found.pop()
            found[-1][1].extend(["", line])
        elif kind == "code" or kind == "list":
            if not found or found[-1][0] != kind:
                found.append((kind, []))
            found[-1][1].append(line)
        elif found and found[-1][0] == "list" and line.startswith("  "):
            found[-1][1][-1] += " " + line.strip()
        elif found and found[-1][0] == "prose":
            found[-1][1].append(line.strip())
        else:
            found.append(("prose", [line.strip()]))
    return [(kind, block) for kind, block in found if kind != "gap"]


class Links:
    """Where each name of the API is described."""

    def __init__(self, pages):
        self.places = {}
        for header, (_, items) in pages.items():
            for item in items:
                for name in item.names():
                    self.places[name] = (header, anchor(heading(item)))
                for error, _, _ in (row for declaration in item.declarations for row in rows_of_list(declaration)):
                    self.places[error] = (header, anchor(heading(item)))
        self.headers = set(pages)

    def link(self, name, page, prefix="", tail=""):
        if name in self.headers:
            return f"[`{name}`]({prefix}{name[:-2]}.md)" if name != page else f"`{name}`"
        place = self.places.get(name) or self.places.get("struct " + name) or self.places.get("enum " + name)
        if not place:
            return f"`{name}{tail}`"
        target = f"{prefix}{place[0][:-2]}.md" if place[0] != page else ""
        return f"[`{name}{tail}`]({target}#{place[1]})"

    def prose(self, text, page, prefix=""):
        """Text as Markdown: names become code and links, and special characters are escaped."""
        parts = re.split(r"(`[^`]*`)", text)
        for number, part in enumerate(parts):
            if number % 2:
                continue
            out, at = [], 0
            for match in NAME.finditer(part):
                out.append(escaped(part[at:match.start()]))
                if match["page"]:
                    up = "../../" if page else "../"
                    out.append(f"[{match['page']}]({up}{match['page'].partition('/')[2]})")
                elif match["rest"]:
                    out.append(f"`{match[0]}`")
                else:
                    out.append(self.link(match["name"], page, prefix, match["member"] or ""))
                at = match.end()
            parts[number] = "".join(out) + escaped(part[at:])
        return "".join(parts)


NAME = re.compile(r"(?P<page>docs/[\w/-]+\.md)|(?P<rest>\bWEIR_\w+_\.\.\.)"
                  r"|\b(?P<name>(?:struct |enum )?weir_\w+|WEIR_[A-Z0-9_]+|[a-z]+\.h)\b(?:\(\))?(?P<member>\.[a-z]\w*)?")
SECTION = re.compile(r"-{3,} (.*?) -{3,}$")


def escaped(text):
    return re.sub(r"([*<\[\]|])", r"\\\1", text)


def heading(item):
    names = item.names()
    if len(names) > 3:
        return f"{names[0]} to {names[-1]}"
    return ", ".join(names)


def anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def first_sentence(lines):
    text = next((" ".join(block) for kind, block in paragraphs(lines) if kind == "prose"), "")
    return re.split(r"(?<=\.) |: *$", text + " ")[0].strip().rstrip(".:")


def as_markdown(lines, links, page):
    out = []
    for kind, block in paragraphs(lines):
        if kind == "code":
            indent = min(len(line) - len(line.lstrip()) for line in block if line)
            language = "c" if any(line.rstrip().endswith((";", "{")) for line in block) else "text"
            out.append("\n".join([f"```{language}", *(line[indent:].expandtabs(8) for line in block), "```"]))
        elif kind == "list":
            out.append("\n".join("- " + links.prose(line[2:], page) for line in block))
        else:
            # "WEIR_ERR_X: when. WEIR_ERR_Y: when." is a list of errors.
            text, *errors = re.split(r"(?<=[.]) (?=WEIR_ERR_\w+(?:, \w+| and \w+)*:)", " ".join(block))
            if text.startswith("WEIR_ERR_"):
                text, errors = "", [text, *errors]
            title = re.match(r"([A-Z]\w+|When \w+)\. (?=[A-Z`]|weir_)", text)  # "When full. A key can be in any slot."
            if title:
                out.append(f"**{title[1]}.** " + links.prose(text[title.end():], page))
            elif text:
                out.append(links.prose(text, page))
            if errors:
                out.append("\n".join("- " + links.prose(error, page) for error in errors))
    return out


# --- pages ------------------------------------------------------------------------------------------------------

def page_of(header, opening, items, links):
    lines = [opening[0].partition(": ")[2], *opening[1:]]
    lines[0] = lines[0][:1].upper() + lines[0][1:]
    out = [f"# {header}", MADE.strip(), *as_markdown(lines, links, header), f"Source: [`weir/{header}`](../../../include/weir/{header})"]
    sections = [SECTION.match(item.comment[0]) if item.comment and not item.declarations else None for item in items]
    level = "###" if any(sections) else "##"
    for item, section in zip(items, sections):
        if section:
            out.append(f"## {section[1][:1].upper()}{section[1][1:]}")
            out += as_markdown(item.comment[1:], links, header)
            continue
        if not item.declarations:
            out += as_markdown(item.comment, links, header)
            continue
        out.append(f"{level} {heading(item)}")
        listed = [rows_of_list(declaration) for declaration in item.declarations]
        if any(listed):
            out.append("\n".join(["| code | value | meaning |", "|---|---|---|",
                                  *(f"| `{name}` | {value} | {meaning} |" for rows in listed for name, value, meaning in rows)]))
            continue
        out.append("```c\n" + "\n".join(map(code_of, item.declarations)) + "\n```")
        opaque = all(re.fullmatch(r"struct \w+;", " ".join(declaration)) for declaration in item.declarations)
        out += as_markdown(item.comment, links, header) or (["An opaque type: use it by its pointer."] if opaque else [])
    return "\n\n".join(out) + "\n"


def index_of(pages, links):
    out = [MADE.strip(), INTRO.strip()]
    unsorted = sorted(set(pages) - {header for _, headers in GROUPS for header in headers})
    for title, headers in [*GROUPS, ("Others", unsorted)]:
        headers = [header for header in headers if header in pages]
        if not headers:
            continue
        out.append(f"## {title}")
        for header in headers:
            opening, items = pages[header]
            what = first_sentence([opening[0].partition(": ")[2], *opening[1:]])
            out.append(f"### {header}")
            out.append(f"[`{header}`](c/{header[:-2]}.md): {links.prose(what, None, 'c/')}.")
            rows = []
            for item in items:
                functions = [name_of(declaration) for declaration in item.declarations if is_function(declaration)]
                if not functions:
                    continue
                names = "<br>".join(links.link(name, None, "c/") for name in functions)
                rows.append(f"| {names} | {links.prose(first_sentence(item.comment), None, 'c/')} |")
            if rows:
                out.append("\n".join(["| function | |", "|---|---|", *rows]))
    return "\n\n".join(out) + "\n"


def make():
    """path -> text"""
    pages = {header.name: read(header) for header in sorted(HEADERS.glob("*.h"))}
    links = Links(pages)
    made = {FOLDER / f"{header[:-2]}.md": page_of(header, *page, links) for header, page in pages.items()}
    made[INDEX] = index_of(pages, links)
    return made


def main(check):
    made = make()
    left_over = sorted(set(FOLDER.glob("*.md")) - set(made))
    if not check:
        FOLDER.mkdir(exist_ok=True)
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        for path in left_over:
            path.unlink()
        return 0
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in [*stale, *left_over]:
        print(f"{path.relative_to(ROOT)}: stale; ./dev docs writes it")
    if not stale and not left_over:
        print(f"C reference: {len(made)} pages match the headers")
    return 1 if stale or left_over else 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main("--check" in sys.argv[1:]))

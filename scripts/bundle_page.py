#!/usr/bin/env python3
"""Makes one file of the live page, and a C file of that, for the daemon.

    bundle_page.py INDEX UPLOT OUT

INDEX is page/index.html, whose scripts and style sheets are put in where it refers to them; a reference that begins with
uplot/ is to the folder UPLOT, the package as npm has it; if that is none, they are left out, and so are charts. OUT defines weir__page, the same as gzip writes it, its
Content-Security-Policy, which allows these scripts and styles by their hashes and no others, and its ETag."""

import base64
import gzip
import hashlib
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import embed  # noqa: E402

# Those that follow each other become one element, since each takes a hash in a header; but ours do not follow uPlot's,
# so that "use strict" is what they begin with.
SCRIPTS = re.compile(r'(?:<script src="uplot/[^"]+"></script>\n)+|(?:<script src="[^"]+"></script>\n)+')
STYLES = re.compile(r'(?:<link rel="stylesheet" href="[^"]+">\n)+')
OF_UPLOT = re.compile(r'<(?:script src|link rel="stylesheet" href)="uplot/[^"]+">(?:</script>)?\n')
FILE = re.compile(r'(?:src|href)="([^"]+)"')
RULES = ["default-src 'none'", "connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'",
         "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"]


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


class Bundle:
    def __init__(self, index, uplot):
        self.folder, self.uplot, self.hashes = index.parent, uplot, {"script": [], "style": []}
        text = index.read_text(encoding="utf-8")
        if uplot is None:
            text = OF_UPLOT.sub("", text).replace("<!-- licences -->", "")
        else:
            text = self.put_licence(text)
        text = STYLES.sub(lambda match: self.put_in("style", match[0]), text)
        self.text = SCRIPTS.sub(lambda match: self.put_in("script", match[0]), text)

    def put_licence(self, text):
        licence = (self.uplot / "LICENSE").read_text(encoding="utf-8").strip()
        text = text.replace("<!-- licences -->", f"<!--\nCharts by uPlot, https://github.com/leeoniya/uPlot\n\n{licence}\n-->")
        if licence not in text:
            sys.exit("index.html: there is no <!-- licences -->, where that of uPlot is to be")
        return text

    def put_in(self, kind, references):
        content = "\n" + "\n\n".join(self.read(kind, name) for name in FILE.findall(references)) + "\n"
        self.hashes[kind].append(hash_of(content))
        return f"<{kind}>{content}</{kind}>\n"

    def read(self, kind, name):
        file = self.uplot / "dist" / name.removeprefix("uplot/") if name.startswith("uplot/") else self.folder / name
        content = file.read_text(encoding="utf-8").strip()
        if re.search(f"</{kind}|<!--", content, re.IGNORECASE):
            sys.exit(f"{file}: what ends the element it is put into, or begins a comment, cannot be in it")
        return content

    def policy(self):
        return "; ".join([*RULES, *(f"{kind}-src {' '.join(hashes)}" for kind, hashes in self.hashes.items())])


def main(index, uplot, out):
    bundle = Bundle(Path(index), None if uplot == "none" else Path(uplot))
    page = bundle.text.encode()
    with open(out, "w", encoding="ascii") as file:
        file.write(f"/* {Path(out).name}: made by bundle_page.py. */\n")
        embed.write(file, "weir__page", page)
        embed.write(file, "weir__page_gzip", gzip.compress(page, 9, mtime=0))
        embed.write(file, "weir__page_policy", bundle.policy().encode())
        embed.write(file, "weir__page_tag", hashlib.sha256(page).hexdigest()[:32].encode())


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

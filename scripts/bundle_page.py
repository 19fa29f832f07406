#!/usr/bin/env python3
"""Bundles the live page into one HTML file, and writes it as a C file for the server.

    bundle_page.py INDEX UPLOT OUT

INDEX is page/index.html. Its scripts and style sheets are inlined. A reference that begins with uplot/ is to the folder UPLOT, the
npm package. If UPLOT is `none`, those references are dropped, and the page has no charts. OUT defines the page, its gzip form, its
Content-Security-Policy, which allows only these scripts and styles, by hash, and its ETag."""

import base64
import gzip
import hashlib
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import embed  # noqa: E402

# Consecutive references become one element, because each element needs a hash in a header. Our scripts and uPlot's stay in
# separate elements: "use strict" must be the first statement of ours.
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
            sys.exit("index.html: <!-- licences --> not found: uPlot's licence goes there")
        return text

    def put_in(self, kind, references):
        content = "\n" + "\n\n".join(self.read(kind, name) for name in FILE.findall(references)) + "\n"
        self.hashes[kind].append(hash_of(content))
        return f"<{kind}>{content}</{kind}>\n"

    def read(self, kind, name):
        file = self.uplot / "dist" / name.removeprefix("uplot/") if name.startswith("uplot/") else self.folder / name
        content = file.read_text(encoding="utf-8").strip()
        if re.search(f"</{kind}|<!--", content, re.IGNORECASE):
            sys.exit(f"{file}: must not contain </{kind} or <!--")
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

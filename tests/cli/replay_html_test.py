#!/usr/bin/env python3
"""weir replay --html: one page that shows the numbers of the report, needs nothing else, and lets nothing out of a log in.

    replay_html_test.py WEIR

Covers: src/cli/replay_html.c"""

import base64
import hashlib
import html
import html.parser
import json
import os
import re
import stat
import subprocess
import sys
import tempfile

WEIR = os.path.abspath(sys.argv[1])
TIMEOUT_S = 60
POLICY = "limits:\n  - {name: per-ip, key: [ip], limit: 5/min burst 3}\n  - {name: everyone, limit: 1000/s}\n"
VOID = {"meta", "rect", "line"}
HOSTILE = (b"<script>alert(1)</script>", b"\"'><img src=x onerror=alert(1)>", b"</title></svg><b>", b"\xff\xfe<i>", b"a\xe2\x80\xaeb", b"&amp;")


class Page(html.parser.HTMLParser):
    """Checks that each element is closed, and collects."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.links, self.meta, self.style = [], [], "", [], {}, ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        assert not [name for name in attributes if name.startswith("on") or name == "style"], attrs
        self.links += [attributes[name] for name in ("src", "href", "action", "xlink:href") if name in attributes]
        if tag == "meta" and "http-equiv" in attributes:
            self.meta[attributes["http-equiv"]] = attributes["content"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID, tag
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text += data


def log_of(lines):
    """Lines of (second of the day, client, path)."""
    return b"".join(b'%s - - [02/Mar/2026:%02d:%02d:%02d +0000] "GET %s HTTP/1.1" 200 1 "-" "-"\n'
                    % (client, at // 3600, at // 60 % 60, at % 60, path) for at, client, path in lines)


def replay(folder, log, *options, status=0):
    for name, content in (("log", log), ("new & <i>.yaml", POLICY.encode()), ("old.yaml", POLICY.replace("5/min burst 3", "50/min burst 30").encode())):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    done = subprocess.run([WEIR, "replay", "--policy", "new & <i>.yaml", "log", "--html", "page.html", "--json", *options], cwd=folder,
                          capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == status, (done.returncode, done.stderr)
    if status:
        return done.stderr.decode(), None
    with open(os.path.join(folder, "page.html"), encoding="utf-8") as file:
        return json.loads(done.stdout), file.read()


def a_page_is_whole_and_needs_nothing(folder):
    lines = [(at * 7 % 900, b"198.51.100.%d" % (at % 5), b"/p") for at in range(600)]
    for options in ((), ("--compare", "old.yaml")):
        told, text = replay(folder, log_of(sorted(lines)), *options)
        page = Page(text)
        assert stat.S_IMODE(os.stat(os.path.join(folder, "page.html")).st_mode) == 0o600
        assert not page.links and "script" not in page.tags and "http://" not in text and "https://" not in text, page.links
        digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
        assert page.meta["Content-Security-Policy"] == \
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'", page.meta
        assert "198.51.100" not in text, "clients are hashed"
        assert page.text.count("Clients with the most denied requests") == 1 and "decided by new & <i>.yaml" in page.text
        first = text[text.index("<figure>"):text.index("</figure>")]
        shown = [int(number.replace(",", "")) for number in re.findall(r": ([\d,]+) allowed, ([\d,]+) denied</title>", first)
                 for number in number]
        assert sum(shown) == 600 and sum(shown[1::2]) == told["replay"]["denied"] > 0, (told["replay"], sum(shown[1::2]))
        heat = text[text.index('<table class="heat">'):]
        hours = [int(number.replace(",", "")) for number in re.findall(r"00: ([\d,]+) requests", heat[:heat.index("</table>")])]
        assert len(hours) == 24 and sum(hours) == 600, hours
        assert text.count("<figure>") == (2 if options else 1)


def a_page_has_the_notes_of_the_report(folder):
    replay(folder, log_of([(at, b"198.51.100.1", b"/") for at in (0, 40, 90, 20)]), "--html-names", "plain")
    done = subprocess.run([WEIR, "replay", "--policy", "new & <i>.yaml", "log", "--html", "page.html"], cwd=folder, capture_output=True,
                          timeout=TIMEOUT_S, check=True)
    notes = done.stdout.decode().partition("what to know about these numbers\n")[2].replace("\n  ", " ").splitlines()
    with open(os.path.join(folder, "page.html"), encoding="utf-8") as file:
        shown = [html.unescape(note) for note in re.findall("<li>(.*)</li>", file.read().partition('<ul class="notes">')[2])]
    assert len(notes) > 4 and [f"- {note}" for note in shown] == notes, (notes, shown)
    assert any("later in the log than --reorder" in note for note in notes), notes


def rates_are_exact(folder):
    for n, seconds, top, middle in ((5, 1, "5/s", "2.50/s"), (1, 1, "1/s", "0.50/s"), (250, 1, "250/s", "125/s"), (25, 1, "25/s", "12.5/s"),
                                    (3, 7200, None, None)):
        _, text = replay(folder, log_of(sorted((at * seconds // n, b"198.51.100.1", b"/") for at in range(n))))
        shown = re.search(r'class="top">([^<]*)</span><span class="middle">([^<]*)<', text).groups()
        if top:
            assert shown == (top, middle), (n, shown)
            assert f"<b>{top}</b>" in text
        else:
            assert re.fullmatch(r"0\.\d\d/s", shown[0]) and float(shown[0][:-2]) < 0.2, shown


def hostile_bytes_stay_text(folder):
    lines = [(at, client, b"/") for at in range(6) for client in HOSTILE]
    with open(os.path.join(folder, "names.yaml"), "w", encoding="ascii") as file:
        file.write("limits:\n  - {name: all, key: [user], limit: 1/hour}\n")
    rows = b"user,time\n" + b"".join(
        b'"%s",2026-03-02T00:00:%02dZ\n' % (client.replace(b'"', b'""'), at) for at, client, _ in lines)
    _, text = replay(folder, rows, "--policy", "names.yaml", "--format", "csv", "--client", "user", "--html-names", "plain")
    page = Page(text)
    assert not {"script", "img", "b>", "i>"} & set(page.tags), set(page.tags)
    assert "<script>alert(1)</script>" in page.text and "\\xff\\xfe<i>" in page.text and "\\xe2\\x80\\xae" in page.text, page.text


def names_differ_from_page_to_page(folder):
    lines = log_of([(at, b"198.51.100.1", b"/") for at in range(20)])
    names = [set(re.findall(r"#[0-9a-f]{12}", replay(folder, lines)[1].partition("</style>")[2])) for _ in range(2)]
    assert len(names[0]) == len(names[1]) == 1 and names[0] != names[1], names
    _, text = replay(folder, lines, "--html-names", "plain")
    assert "198.51.100.1" in text


def faults_are_reported(folder):
    lines = log_of([(1, b"198.51.100.1", b"/")])
    for options, status, text in ((("--html-names", "some"), 2, "hashed or plain"), (("--html", "none/such"), 1, "No such file"),
                                  (("--html", "/dev/full"), 1, "No space left")):
        told, _ = replay(folder, lines, *options, status=status)
        assert text in told, told


for test in (a_page_is_whole_and_needs_nothing, a_page_has_the_notes_of_the_report, rates_are_exact, hostile_bytes_stay_text, names_differ_from_page_to_page, faults_are_reported):
    with tempfile.TemporaryDirectory(prefix="weir-html-") as folder:
        test(folder)
    print("ok", test.__name__.replace("_", " "))

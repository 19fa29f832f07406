"""metrics_page.py: parses a page of /metrics, independently of the code that writes it."""

import re
import shutil
import subprocess
from collections import defaultdict

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
NUMBER = re.compile(r"\d+(\.\d*[1-9])?")
ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


def labels_of(text):
    """The labels between braces, as pairs."""
    pairs, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, text
        pairs.append((match[1], re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], match[2])))
        at = match.end()
    assert len({name for name, _ in pairs}) == len(pairs), text
    return pairs


class Page:
    """samples: {(name, labels as a sorted tuple): value}; types, helps: by family."""

    def __init__(self, text):
        self.text, self.samples, self.types, self.helps, self.units = text, {}, {}, {}, {}
        self.families = defaultdict(set)
        self.is_open = text.endswith("# EOF\n")
        assert text.endswith("\n") and ("# EOF" in text) == self.is_open
        family = None
        for line in text[:-1].split("\n"):
            if line == "# EOF":
                continue
            if line.startswith("#"):
                _, what, name, said = line.split(" ", 3)
                kind = {"HELP": self.helps, "TYPE": self.types, "UNIT": self.units}[what]
                assert name not in kind and (what == "HELP" or name == family), line
                kind[name] = said
                family = name
            else:
                self.add(line, family)
        assert self.types.keys() == self.helps.keys()
        self.check_histograms()

    def add(self, line, family):
        name = NAME.match(line)[0]
        rest = line[len(name):]
        labels, value = rest[1:].rsplit("} ", 1) if rest.startswith("{") else ("", rest[1:])
        assert NUMBER.fullmatch(value) and len(value) <= 30, line
        assert name in self.names_of(family), (line, family)
        key = (name, tuple(sorted(labels_of(labels))))
        assert key not in self.samples, line
        self.samples[key] = float(value)
        self.families[family].add(key)

    def names_of(self, family):
        """The names that samples of a family may have."""
        kind = self.types[family]
        if kind == "histogram":
            return {family + suffix for suffix in ("_bucket", "_sum", "_count")}
        if not self.is_open:
            assert (kind == "counter") == family.endswith("_total"), family
            return {family}
        assert not family.endswith(("_total", "_info")), family
        assert family.endswith(self.units.get(family, "")), family
        return {family + {"counter": "_total", "info": "_info"}.get(kind, "")}

    def check_histograms(self):
        for family, kind in self.types.items():
            if kind != "histogram":
                continue
            series = defaultdict(list)
            for name, labels in self.families[family]:
                if name.endswith("_bucket"):
                    bare = tuple(pair for pair in labels if pair[0] != "le")
                    series[bare].append((float(dict(labels)["le"]), self.samples[name, labels]))
            assert series, family
            for labels, places in series.items():
                places.sort()
                counts = [count for _, count in places]
                assert counts == sorted(counts) and places[-1][0] == float("inf"), (family, places)
                assert counts[-1] == self.samples[family + "_count", labels], (family, places)
                assert (self.samples[family + "_sum", labels] > 0) <= (counts[-1] > 0), family

    def get(self, name, **labels):
        """The sample with these labels (it may have more); None if there is none."""
        found = [value for (of, pairs), value in self.samples.items() if of == name and labels.items() <= dict(pairs).items()]
        assert len(found) < 2, (name, labels, found)
        return found[0] if found else None


def check_by_promtool(text):
    """Prometheus' own checker must report nothing."""
    assert shutil.which("promtool"), "no promtool: install prometheus"
    result = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=60, check=False)
    assert result.returncode == 0 and not result.stdout, result.stdout.decode(errors="replace")

#!/usr/bin/env python3
"""The JSON Schema of policies and weir_policy_read agree on which documents are valid.

    schema_test.py WEIR SCHEMA EXAMPLES [DOCUMENTS]

Documents are written as JSON, which is also YAML, and given to `weir check-config`. Weir must reject a document that
the schema rejects. The schema must reject what Weir rejects, except for rules that a schema cannot express:
BEYOND_A_SCHEMA has patterns of Weir's messages for those. The test makes DOCUMENTS (600) random changes to valid
documents, as people make mistakes."""

import copy
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
import yaml

# A schema sees one value at a time. It knows nothing of types of attributes, other values, files or sums.
BEYOND_A_SCHEMA = [
    "wait needs a limit that delays",
    "consistency: lease needs Redis",
    "consistency: eventual needs Redis",
    r"duplicate name '",
    r"duplicate attribute in this key",
    r"this override can never match",
    r"no limits found",
    r"in a table .* is at most",
    r"never allows a cost of",
    r"on an address; use a network",
    r"more than 16 limits can apply",
    r"too many attributes",
    r"is neither an address nor a network",
    r"has bits set beyond its prefix length",
    r"contains '\?'",
    r"given twice; use each option at most once",
    r"limit '[^']*[0-9]{20}",  # more than 2^64 - 1
    r"it must divide the period",
    r"a sliding_log counts at most",
    r"use a whole number, 0 to 9223372036854775807",  # digits in quotes, and too many of them
    r"No such file or directory|Is a directory",
    r"invalid attribute name",  # a schema counts characters, Weir bytes
]


def limit(**more):
    return {"name": "a", "limit": "10/s"} | more


def of(*limits, **more):
    return {"limits": list(limits)} | more


VALID = [
    {"limits": []}, of(limit()), of(limit(), unmatched="allow"), of(limit(), unmatched="deny"), of(limit(name="A-z_0./:")), of(limit(name="a" * 40)),
    of(limit(name=5)), of(limit(limit="1/250ms")), of(limit(limit="0.5/sec")), of(limit(limit="100/5minutes")),
    of(limit(limit="010.25/h")), of(limit(limit="00.01/2weeks burst 3")), of(limit(limit="5/d\n")), of(limit(limit="5/d burst 3\r\n")),
    of(limit(limit="  10/2day   burst 3  ")),
    of(limit(limit="10/s refill interval burst 30")), of(limit(limit="10/s token_bucket refill smooth")),
    of(limit(limit="5/s leaky")), of(limit(limit="5/s leaky queue 50")), of(limit(limit="5/s leaky_bucket burst 50")),
    of(limit(limit="10/s fixed_window align first count all")), of(limit(limit="1000/hour sliding_log count admitted")),
    of(limit(limit="100/min sliding_counter segments 6 count all")), of(limit(limit="268435455/ns fixed_window")),
    of(limit(key="ip")), of(limit(key=[])), of(limit(key=["ip", "user"])), of(limit(key={"attribute": "ip", "ipv6": 56})),
    of(limit(key=[{"attribute": "ip", "ipv4": 24, "ipv6": "48", "default": ""}, "b", 3, True])),
    of(limit(key=[{"attribute": "ip", "ipv4": 0, "ipv6": 128}])), of(limit(key=list("abcdefgh"))),
    of(limit(match={})), of(limit(match={"method": "GET"})), of(limit(match={"method": ["GET", "PUT"], "n": 5})),
    of(limit(match={"plan": {"not": ["gold", "s*"]}})), of(limit(match={"plan": {"is": "a*"}})),
    of(limit(match={"plan": {"prefix": ["a", "b"]}})), of(limit(match={"plan": {"present": True}})),
    of(limit(match={"plan": {"present": "false"}})), of(limit(match={"ip": ["10.0.0.0/8", "2001:db8::/32", "::1"]})),
    of(limit(match={"path": "/v1/**", "host": "*.example.com"})),
    of(limit(cost=0)), of(limit(cost="7")), of(limit(cost={"attribute": "items"})),
    of(limit(cost={"attribute": "items", "default": 3})), of(limit(cost=10)),
    of(limit(mode="enforce")), of(limit(mode="shadow")), of(limit(mode="off")), of(limit(overrides=[])),
    of(limit(overrides=[{"when": {"plan": "gold"}, "limit": "20/s"}, {"when": {"plan": "x"}, "mode": "off"}])),
    of(limit(overrides=[{"when": {"ip": "10.0.0.0/8"}, "limit": "20/s", "mode": "shadow"}])),
    of(limit(match={"plan": "x"}, key="ip", cost=2, mode="shadow"), {"name": "b", "limit": "1/s"}),
    of(limit(on_store_failure="share")), of(limit(on_store_failure="open")), of(limit(on_store_failure="closed")),
    of(limit(on_store_failure={"local": "200/s burst 400"}, store_budget="5ms")), of(limit(store_budget="10s")),
    of(limit(store="table")), of(limit(store="redis", on_store_failure="open")),
    of(limit(overrides=[{"when": {"plan": "x"}, "limit": "5/s", "store": "redis"}])),
    *(of(limit(consistency=how)) for how in ("exact", "lease", {"lease": {}}, {"lease": {"stranded": "1%"}}, {"lease": {"stranded": "050%"}})),
    *(of(limit(consistency=how)) for how in ("eventual", {"eventual": {}}, {"eventual": {"sync": "10ms"}}, {"eventual": {"sync": "010s", "ahead": "50%"}})),
    *(of(limit(consistency={"eventual": {"sync": how}})) for how in ("1s", "9999ms", "10000ms", "00100ms")),
    of(limit(overrides=[{"when": {"plan": "x"}, "limit": "5/s", "consistency": "lease"}])),
    of(limit(store_budget="10000ms")), of(limit(store_budget="001ms")),
    *(of(limit(limit="5/s leaky queue 20", wait=wait)) for wait in ("1ms", "5s", "86400000ms", "086400s", "1440min", "24hour", "1day")),
    of(limit(limit="5/s leaky queue 20", overrides=[{"when": {"plan": "x"}, "limit": "9/s leaky queue 9", "wait": "1min"}])),
    of(limit(on_store_failure="open", overrides=[
        {"when": {"plan": "x"}, "limit": "5/s", "on_store_failure": {"local": "9/s leaky"}, "store_budget": "1s"}])),
    of(limit(), attributes={"user": {"type": "text", "lower": True, "default": "x"}, "from": {"type": "ip"}}),
    of(limit(), attributes={"uri": {"type": "path"}, "none": {}, "n": {"lower": "false", "default": 5}}),
]

INVALID = [
    [], "limits", 5, {"limit": []}, of(limit(), unmatched="maybe"), of(limit(), unmatched=True), of(limit(unmatched="deny")), {"limits": {}}, {"limits": "a"}, {"limits": None}, {"attributes": []}, of("a"),
    of([]), of({}), of({"name": "a"}), of({"limit": "10/s"}), of(limit(rate=5)), of(limit(name="")),
    of(limit(name="a b")), of(limit(name="a" * 41)), of(limit(name=["a"])), of(limit(name="ä")),
    of(limit(limit="10")), of(limit(limit="10/fortnight")), of(limit(limit="10/m")), of(limit(limit="10/month")), of(limit(limit="0.0/s")),
    of(limit(limit="0./s")), of(limit(limit=".5/s")), of(limit(limit="10/1.5s")), of(limit(limit="0/s")), of(limit(limit="10/0s")),
    of(limit(limit="10/s burst")), of(limit(limit="10/s burst 0")), of(limit(limit="10/s queue 5")),
    of(limit(limit="10/s leaky refill interval")), of(limit(limit="10/s sliding_log align first")),
    of(limit(limit="10/s fixed_window segments 2")), of(limit(limit="10/s burst 5 leaky")), of(limit(limit=10)),
    of(limit(limit="10 /s")), of(limit(limit="10/s\tburst 5")), of(limit(limit="-1/s")), of(limit(limit=["10/s"])),
    of(limit(limit="10/s leaky burst 2 queue 3")), of(limit(limit="10/s sliding_counter segments 0")),
    of(limit(key=[["ip"]])), of(limit(key={})), of(limit(key={"ipv6": 64})), of(limit(key=["ip", "ip"])),
    of(limit(key={"attribute": "ip", "ipv4": 33})), of(limit(key={"attribute": "ip", "ipv6": 129})),
    of(limit(key={"attribute": "ip", "ipv6": -1})), of(limit(key={"attribute": "ip", "bits": 5})),
    of(limit(key={"attribute": ["ip"]})), of(limit(key="")), of(limit(key="a" * 64)), of(limit(key=list("abcdefghi"))),
    of(limit(match=[])), of(limit(match="x")), of(limit(match={"a": []})), of(limit(match={"a": [["b"]]})),
    of(limit(match={"a": {}})), of(limit(match={"a": {"is": "x", "not": "y"}})), of(limit(match={"a": {"like": "x"}})),
    of(limit(match={"a": {"present": "yes"}})), of(limit(match={"a": {"not": []}})), of(limit(match={"": "x"})),
    of(limit(match={"a": {"not": {"is": "x"}}})),
    of(limit(cost=-1)), of(limit(cost="many")), of(limit(cost=[])), of(limit(cost={})), of(limit(cost={"default": 1})),
    of(limit(cost={"attribute": "a", "default": -1})), of(limit(cost={"attribute": "a", "min": 1})),
    of(limit(cost=9223372036854775808)),
    of(limit(mode="on")), of(limit(mode=False)), of(limit(mode=["off"])), of(limit(overrides={})),
    of(limit(overrides=["x"])), of(limit(overrides=[{}])), of(limit(overrides=[{"when": {"a": "b"}}])),
    of(limit(overrides=[{"limit": "1/s"}])), of(limit(overrides=[{"when": [], "mode": "off"}])),
    of(limit(overrides=[{"when": {"a": "b"}, "limit": "1/fortnight"}])),
    of(limit(overrides=[{"when": {"a": "b"}, "mode": "off", "cost": 2}])), of(limit(overrides_from=["x.csv"])),
    of(limit(on_store_failure="maybe")), of(limit(on_store_failure=["open"])), of(limit(on_store_failure={})),
    of(limit(on_store_failure={"local": "0/s"})), of(limit(on_store_failure={"local": ["1/s"]})),
    of(limit(on_store_failure={"local": "1/s", "share": True})), of(limit(on_store_failure=True)),
    of(limit(store="memory")), of(limit(store=["table"])), of(limit(store="")), of(limit(store={"redis": "x"})),
    of(limit(overrides=[{"when": {"a": "b"}, "mode": "off", "store": "table"}])),
    *(of(limit(limit="5/s leaky queue 20", wait=wait)) for wait in (
        5, "0ms", "86400001ms", "86401s", "1441min", "25hour", "2day", "5", "s", "5 s", "5m", ["5s"])),
    of(limit(limit="5/s leaky queue 20", overrides=[{"when": {"a": "b"}, "mode": "off", "wait": "5s"}])),
    of(limit(store_budget=5)), of(limit(store_budget="0ms")), of(limit(store_budget="10001ms")),
    of(limit(store_budget="11s")), of(limit(store_budget="5us")), of(limit(store_budget="5 ms")),
    of(limit(store_budget=["5ms"])), of(limit(store_budget="99999999999999999999ms")), of(limit(store_budget="ms")),
    of(limit(overrides=[{"when": {"a": "b"}, "mode": "off", "on_store_failure": "open"}])),
    of(limit(overrides=[{"when": {"a": "b"}, "mode": "off", "store_budget": "5ms"}])),
    *(of(limit(consistency=how)) for how in ("exactly", "", ["lease"], {}, {"lease": "5%"}, {"exact": {}}, {"lease": {}, "exact": {}})),
    *(of(limit(consistency={"lease": {"stranded": how}})) for how in (5, "5", "0%", "51%", "5.5%", "-1%", "5 %", "%", ["5%"])),
    *(of(limit(consistency={"eventual": how})) for how in ("1%", {"ahead": "0%"}, {"ahead": 1}, {"sync": "9ms"}, {"sync": "10001ms"}, {"sync": "11s"},
                                                           {"sync": "100us"}, {"sync": 100}, {"stranded": "5%"})),
    of(limit(consistency={"eventual": {}, "lease": {}})),
    of(limit(overrides=[{"when": {"a": "b"}, "mode": "off", "consistency": "lease"}])),
    of(limit(), attributes={"a": "text"}), of(limit(), attributes={"a": {"type": "number"}}),
    of(limit(), attributes={"a": {"lower": "yes"}}), of(limit(), attributes={"a": {"upper": True}}),
    of(limit(), attributes={"a": {"default": []}}), of(limit(), attributes={"": {}}),
]

# Valid by the schema, but rejected by Weir for a rule that a schema cannot express.
ONLY_WEIR = [
    {}, {"attributes": {}}, of(limit(store="table", consistency="lease")), of(limit(store="table", consistency="eventual")), of(limit(limit="18446744073709551615/ns fixed_window")), of(limit(cost=11)),
    of(limit(cost=9223372036854775807)), of(limit(match={"ip": {"prefix": "10."}})),
    of(limit(), limit()), of(limit(key=["ip", {"attribute": "ip"}])), of(limit(match={"ip": "10.0.0.1/8"})),
    of(limit(match={"ip": "localhost"})), of(limit(match={"path": "/a?b"})), of(limit(limit="10/s burst 5 burst 5")),
    of(limit(limit="18446744073709551616/s")), of(limit(limit="10/s sliding_counter segments 7")),
    of(limit(limit="4294967296/s sliding_log")), of(limit(wait="5s")), of(limit(limit="5/s leaky burst 5", wait="5s")),
    of(limit(cost="9223372036854775808")), of(limit(overrides_from="nowhere.csv")), of(limit(key="ä" * 40)),
    of(limit(overrides=[{"when": {"a": "b"}, "mode": "off"}, {"when": {"a": "b", "c": "d"}, "mode": "off"}])),
    of(limit(match={"a": "b"}, overrides=[{"when": {"a": "c"}, "mode": "off"}])),
    of(*(limit(name=f"l{i}") for i in range(17))), of(limit(match={f"a{i}": "x" for i in range(30)})),
]

WORDS = ["", "x", "a*", "gold", "10/s", "0/s", "5/s leaky queue 5", "10.0.0.0/8", "10.0.0.1/8", "/a/**", "off", "shadow",
         "true", "5ms", {"local": "5/s"}, 0, 5, 33, -1, True, False, None, [], {}, ["x"], [[]], {"x": "y"}, {"is": "x"}, {"present": True},
         {"attribute": "x"}, {"not": []}]
KEYS = ["name", "limit", "key", "match", "cost", "mode", "overrides", "when", "attribute", "default", "type", "lower",
        "ipv6", "store", "on_store_failure", "store_budget", "consistency", "lease", "stranded", "eventual", "sync", "ahead", "wait", "local", "is", "not", "present", "limits", "attributes", "unmatched", "x", ""]

SETTINGS = {"store", "on_store_failure", "store_budget"}  # at the top of a document, these are settings of a server


# --- documents ------------------------------------------------------------------------------------------------------

def places(node, found):
    """All lists and maps of a document."""
    if isinstance(node, (dict, list)):
        found.append(node)
        for child in node.values() if isinstance(node, dict) else node:
            places(child, found)
    return found


def change(document, rng):
    """Removes, renames, replaces or adds something."""
    where = rng.choice(places(document, []))
    names = list(where) if isinstance(where, dict) else range(len(where))
    how = rng.randrange(4)
    if how == 0 and names:
        del where[rng.choice(names)]
    elif how == 1 and names:
        where[rng.choice(names)] = copy.deepcopy(rng.choice(WORDS))
    elif how == 2 and names and isinstance(where, dict):
        where[rng.choice(KEYS)] = where.pop(rng.choice(names))
    elif isinstance(where, dict):
        where[rng.choice(KEYS)] = copy.deepcopy(rng.choice(WORDS))
    else:
        where.append(copy.deepcopy(rng.choice(WORDS)))


def generated(number):
    rng = random.Random(7)
    found = []
    while len(found) < number:
        document = copy.deepcopy(rng.choice([one for one in VALID if one]))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            change(document, rng)
        if not SETTINGS & set(document):
            found.append(document)
    return found


# --- judges ---------------------------------------------------------------------------------------------------------

def weir_judges(weir, documents):
    """What Weir reports for each document; empty if it is valid."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{i}.yaml" for i in range(len(documents))]
        for name, document in zip(names, documents):
            Path(folder, name).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        done = subprocess.run([weir, "check-config", *names], cwd=folder, capture_output=True, text=True, check=False,
                              timeout=250)
    reports = {name: [] for name in names}
    for line in done.stderr.splitlines():
        reports[line.split(":", 1)[0]].append(line)
    good = {line.split(":", 1)[0] for line in done.stdout.splitlines()}
    for name in names:
        if (name in good) == bool(reports[name]):
            sys.exit(f"{name} is neither good nor bad: {done.stdout}{done.stderr}")
    return [reports[name] for name in names]


def disagreement(document, reports, is_good):
    """The disagreement as text, or None. is_good: the verdict of the schema."""
    if is_good == (not reports):
        return None
    if not is_good:
        return f"only the schema refuses {json.dumps(document)}"
    if all(any(re.search(known, line) for known in BEYOND_A_SCHEMA) for line in reports):
        return None
    return f"only Weir refuses {json.dumps(document)}: {reports}"


def undescribed(node, path=""):
    """Properties of the schema without a description."""
    found = []
    if isinstance(node, dict):
        for name, child in node.get("properties", {}).items():
            if not child.get("description", "").endswith("."):
                found.append(f"{path}/{name}")
        for name, child in node.items():
            found += undescribed(child, f"{path}/{name}")
    elif isinstance(node, list):
        for child in node:
            found += undescribed(child, path)
    return found


# --- tests ----------------------------------------------------------------------------------------------------------

def main(weir, schema_path, examples, number):
    weir = str(Path(weir).resolve())  # absolute, because it runs in another folder
    schema = json.loads(Path(schema_path).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    faults = []

    def expect(name, documents, is_good_by_schema, is_good_by_weir):
        reports = weir_judges(weir, documents)
        wrong = []
        for document, report in zip(documents, reports):
            is_good = validator.is_valid(document)
            if is_good_by_schema is not None and (is_good, not report) != (is_good_by_schema, is_good_by_weir):
                wrong.append(f"{json.dumps(document)}: schema {is_good}, Weir {report or True}")
            told = disagreement(document, report, is_good)
            if told:
                wrong.append(told)
        tell(name, wrong)
        return reports

    def tell(name, wrong):
        faults.extend(wrong)
        print("\n".join([f"# {one}" for one in wrong] + [f"{'not ok' if wrong else 'ok'} - {name}"]))

    print("1..7")
    tell("each property is described", undescribed(schema))
    expect("good to both", VALID, True, True)
    expect("bad to both", INVALID, False, False)
    expect("bad to Weir alone, which is known", ONLY_WEIR, True, False)
    reports = expect("alike of random ones", generated(number), None, None)
    good = sum(not report for report in reports)
    tell("of random ones some are good and some bad", [] if number / 10 < good < number * 9 / 10 else [f"good: {good}"])
    files = sorted(Path(examples).glob("*.yaml"))
    wrong = [] if files else ["no example found"]
    for file in files:  # Weir reads every scalar as text, and so does this loader
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
        wrong += [f"{file.name}: {error.message}" for error in validator.iter_errors(document)]
    tell("the examples are good", wrong)
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:4], int(sys.argv[4]) if len(sys.argv) == 5 else 600))

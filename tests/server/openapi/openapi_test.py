#!/usr/bin/env python3
"""docs/reference/openapi.json: served unchanged, complete, without lint findings, and each of its examples is executed.

    openapi_test.py WEIR OPENAPI.JSON ENVOY_POLICY FOLDER

Examples are matched by name. The test sends the values of that name in the request body and the parameters. The
response must match the response example of that name, with its status and type: the same shape, and the same values
except those that depend on time or on other requests. Examples run in their order. FOLDER keeps the linter for the next
run; if it is empty, nothing is linted."""
# Covers: src/server/http/http_envoy.c

import fcntl
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

from daemon import TIMEOUT_S, daemon, run  # noqa: E402

WEIR, FILE, ENVOY, FOLDER = sys.argv[1:5]
with open(FILE, encoding="utf-8") as file:
    SPEC = json.load(file)
METHODS = ("get", "post", "put", "delete", "patch")
# Only the type of these is compared: times, and values that depend on the server or on other requests.
LOOSE = {"retry_after_ns", "reset_after_ns", "full_at_ns", "loaded_at", "version", "name", "reset_after", "retry_after",
         "durationUntilReset", "changes", "at", "by"}
# For these fields of /v1/live the schema is enough: they may be null, or depend on the current second.
SEEN = {"all", "at", "uptime_s", "fill", "series", "top", "latency", "connections", "requests_total", "table", "policy"}
COUNTED = {"allowed", "denied", "allowed_total", "rejected_total"}  # numbers of decisions; compared if they are booleans


def operations():
    for path, item in SPEC["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def resolved(value):
    while isinstance(value, dict) and "$ref" in value:
        at = SPEC
        for part in value["$ref"].removeprefix("#/").split("/"):
            at = at[part.replace("~1", "/").replace("~0", "~")]
        value = at
    return value


def client_of(one):
    return http.client.HTTPConnection("127.0.0.1", int(one.http_at.rsplit(":", 1)[1]), timeout=TIMEOUT_S)


def serving(policy):
    return daemon(WEIR, "--keys", "10000", "--workers", "1", "--policy", policy, http="127.0.0.1:0")


# --- one example -------------------------------------------------------------------------------------------------------

def request_of(path, operation, name):
    """(target, headers, body)"""
    query, headers = [], {}
    for parameter in map(resolved, operation.get("parameters", [])):
        example = parameter.get("examples", {}).get(name)
        if example is None:
            continue
        value = example["value"]
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", urllib.parse.quote(value, safe="@"))
        elif parameter["in"] == "header":
            headers[parameter["name"]] = value
        else:
            query += value.items() if isinstance(value, dict) else [(parameter["name"], str(value))]
    target = path + ("?" + urllib.parse.urlencode(query) if query else "")
    for type_, content in operation.get("requestBody", {}).get("content", {}).items():
        value = content["examples"][name]["value"]
        headers["Content-Type"] = type_
        return target, headers, value if type_ != "application/json" else json.dumps(value)
    return target, headers, None


def timeless(value):
    """Replaces who changed a limit, and when."""
    return re.sub(r"by \S+ at \S+Z", "by WHO at WHEN", value) if isinstance(value, str) else value


def compare(wanted, got, where, name=None):
    """Asserts that both have the same shape, and the same values except the loose ones."""
    number = isinstance(wanted, int) and not isinstance(wanted, bool)
    if name in SEEN and where.startswith("get /v1/live "):
        return
    assert type(wanted) is type(got), (where, wanted, got)
    if isinstance(wanted, dict):
        assert wanted.keys() == got.keys(), (where, wanted, got)
        for key in wanted:
            compare(wanted[key], got[key], f"{where}.{key}", key)
    elif isinstance(wanted, list):
        assert len(wanted) == len(got), (where, wanted, got)
        for number, pair in enumerate(zip(wanted, got)):
            compare(*pair, f"{where}[{number}]")
    elif name == "detail":
        assert re.sub(r"\d+", "0", wanted) == re.sub(r"\d+", "0", got), (where, wanted, got)
    elif not (name in LOOSE or number and name in COUNTED):
        assert timeless(wanted) == timeless(got), (where, wanted, got)


def metrics_of(text):
    """The names of metrics, without those that come and go with time."""
    names = {re.split(r"[ {]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}
    return names - {"rate_limiter_bucket_fill_ratio", "rate_limiter_bucket_level_ratio"}


def judge(where, response, type_, name, answer):
    content = resolved(response)["content"]
    assert type_ in content, (where, type_)
    wanted = content[type_]["examples"][name]["value"]
    if type_ == "text/plain":
        same = metrics_of(wanted) == metrics_of(answer) if "rate_limiter" in wanted else wanted == answer
        assert same, (where, wanted, answer)
        return
    got = json.loads(answer)
    compare(wanted, got, where)
    check_schema(where, content[type_]["schema"], got)


def check_schema(where, schema, value):
    import jsonschema
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": SPEC["components"], **schema}
    faults = list(jsonschema.Draft202012Validator(whole).iter_errors(value))
    assert not faults, (where, faults[0].message)


def examples_of(operation):
    """(status, response, name), in the order of the request examples if there are any."""
    found = [(status, response, name) for status, response in operation["responses"].items()
             for content in resolved(response).get("content", {}).values() for name in content.get("examples", {})]
    order = [name for part in [*operation.get("parameters", []), *operation.get("requestBody", {}).get("content", {}).values()]
             for name in resolved(part).get("examples", {})]
    return sorted(found, key=lambda row: order.index(row[2]) if row[2] in order else -1)


def execute(client, path, method, operation):
    n = 0
    for status, response, name in examples_of(operation):
        where = f"{method} {path} {name}"
        target, headers, body = request_of(path, operation, name)
        client.request(method.upper(), target, body, headers)
        got = client.getresponse()
        answer = got.read().decode()
        assert str(got.status) == status, (where, got.status, answer)
        judge(where, response, got.getheader("Content-Type").split(";")[0], name, answer)
        n += 1
    return n


# --- tests -------------------------------------------------------------------------------------------------------------

def every_example_is_executed():
    n = 0
    with serving(os.path.join(HERE, "policy.yaml")) as one, serving(ENVOY) as two:
        clients = {False: client_of(one), True: client_of(two)}
        for path, method, operation in operations():
            done = execute(clients[path == "/json"], path, method, operation)
            assert done > 0 or path in ("/", "/openapi.json"), f"{method} {path} has no example"
            n += done
    return f"{n} examples"


def all_names_are_answered():
    for path, method, operation in operations():
        answered = {name for _, _, name in examples_of(operation)}
        for part in [*operation.get("parameters", []), *operation.get("requestBody", {}).get("content", {}).values()]:
            for name in resolved(part).get("examples", {}):
                assert name in answered, f"{method} {path}: nothing answers the example {name}"


def every_route_is_described():
    """The test finds the methods of a path by its 405. A path that takes any method is described by GET and has
    x-any-method. The table of docs/reference/http.md, which is generated from the routes, shows that no path is
    missing."""
    described = {}
    for path, method, _ in operations():
        described.setdefault(path, set()).add(method.upper())
    with serving(os.path.join(HERE, "policy.yaml")) as one:
        client = client_of(one)
        for path, methods in described.items():
            client.request("PATCH", path.replace("{", "").replace("}", ""))
            answer = client.getresponse()
            answer.read()
            if SPEC["paths"][path].get("get", {}).get("x-any-method"):
                assert answer.status == 200, (path, answer.status)
                continue
            allowed = set(answer.getheader("Allow", "").split(", ")) - {"HEAD"}
            assert (answer.status, allowed) == (405, methods), (path, answer.status, allowed, methods)
        with open(os.path.join(HERE, "../../../docs/reference/http.md"), encoding="utf-8") as page:
            listed = set(re.findall(r"^\| `([A-Z]+ /\S*)`", page.read(), re.MULTILINE))
        assert listed == {f"{method} {path}" for path in described for method in described[path]}, listed


def it_is_served_as_it_is():
    with serving(os.path.join(HERE, "policy.yaml")) as one:
        client = client_of(one)
        client.request("GET", "/openapi.json")
        answer = client.getresponse()
        assert answer.getheader("Content-Type") == "application/json" and json.load(answer) == SPEC


def fetch(made):
    lock, mark = os.path.join(HERE, "package-lock.json"), os.path.join(made, "fetched")
    if os.path.exists(mark) and os.path.getmtime(mark) >= os.path.getmtime(lock):
        return
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), made)
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache",
                           os.path.join(FOLDER, "npm-cache")], cwd=made, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, f"the linter cannot be had: {(done.stdout + done.stderr)[-2000:]}"
    with open(mark, "w", encoding="ascii"):
        pass


def it_is_linted():
    if not FOLDER:
        return "in the plain build"
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one test run downloads at a time
        fetch(os.path.join(FOLDER, "node"))
    done = subprocess.run(["node", os.path.join(HERE, "lint.js"), os.path.join(FOLDER, "node"), FILE],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return None


TESTS = [
    ("every example is executed", every_example_is_executed),
    ("all examples of requests are answered", all_names_are_answered),
    ("every route is described, and no other", every_route_is_described),
    ("it is served as it is", it_is_served_as_it_is),
    ("it is linted", it_is_linted),
]

if __name__ == "__main__":
    sys.exit(run(TESTS))

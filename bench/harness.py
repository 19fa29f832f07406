"""What the benches share: running programs, building the peers in Go, and how a report ends. Not a bench itself."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOCODE = "/usr/share/gocode"  # where Debian's golang-*-dev packages are


def run(command, cpus=None, env=None):
    """What the command writes to standard output and to standard error; ends the program if it fails."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    done = subprocess.run(command, cwd=ROOT, env=env, preexec_fn=pin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def build_peer(name):
    """Builds bench/peers/NAME.go; returns the program, from ROOT."""
    program = f"build/bench/peers/{name}"
    (ROOT / program).parent.mkdir(parents=True, exist_ok=True)
    env = os.environ | {"GO111MODULE": "off", "GOPATH": GOCODE, "GOCACHE": str(ROOT / "build" / "gocache"),
                        "GOFLAGS": "", "CGO_ENABLED": "0"}
    run(["go", "build", "-o", program, f"bench/peers/{name}.go"], env=env)
    return program


def percent(share):
    return f"{100 * share:.0f} %"


def machine(packages):
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    versions = {package: run(["dpkg-query", "-W", "-f", "${Version}", package])[0] for package in packages}
    return {"cpu": cpu[1] if cpu else platform.machine(), "processors": os.cpu_count(), "kernel": platform.release(),
            "go": run(["go", "version"])[0].strip(), "packages": versions}


def print_machine(where):
    print(f"\n{where['cpu']}, {where['processors']} processors, Linux {where['kernel']}, {where['go']}")


def judge_ratios(promises, ratios, notes):
    """Rows of (met, what) for (ratio, ">=" or "<=", bound); notes: ratio -> what else to say of it."""
    rows = []
    for name, sign, bound in promises:
        met = ratios[name] >= bound if sign == ">=" else ratios[name] <= bound
        rows.append((met, f"{name}: {ratios[name]:.2f}, {'at least' if sign == '>=' else 'at most'} {bound}"
                          f"{notes.get(name, '')}"))
    return rows


def finish(bench, rows, ratios, result, arguments):
    """Prints figures and ratios, writes the result as JSON; the exit status."""
    command = " ".join([f"./dev bench {bench}", *sys.argv[1:]])
    path = f"build/bench/{bench}.json"
    print()
    for met, what in rows:
        print(f"{'quick' if arguments.quick else 'PASS' if met else 'FAIL'}  {what}")
    print(f"\nreproduce: {command}\nwritten: {path}\n")
    for name, value in ratios.items():
        print(f"ratio {name} {value:.3f}")
    (ROOT / path).write_text(json.dumps({
        "command": command, **result, "figures": [{"met": met, "figure": what} for met, what in rows],
        "ratios": ratios}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(met for met, _ in rows) or arguments.report_only or arguments.quick else 1

"""Functions that the benchmarks share: they run programs in rounds, count instructions, build the peers in Go, and print the end
of a report. Not a benchmark itself."""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOCODE = "/usr/share/gocode"  # where Debian's golang-*-dev packages are


def run(command, cpus=None, env=None):
    """Runs a command; returns its standard output and standard error. Exits if the command fails."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    done = subprocess.run(command, cwd=ROOT, env=env, preexec_fn=pin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def build_peer(name, *shared):
    """Builds bench/peers/NAME.go with the shared files; returns the path of the program, relative to ROOT."""
    program = f"build/bench/peers/{name}"
    (ROOT / program).parent.mkdir(parents=True, exist_ok=True)
    env = os.environ | {"GO111MODULE": "off", "GOPATH": GOCODE, "GOCACHE": str(ROOT / "build" / "gocache"),
                        "GOFLAGS": "", "CGO_ENABLED": "0"}
    run(["go", "build", "-o", program, *(f"bench/peers/{one}.go" for one in (name, *shared))], env=env)
    return program


def processors():
    """Number of threads -> their processors: the last ones, because the first often serves interrupts."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        sys.exit("this benchmark needs two processors")
    return {1: set(usable[-1:]), 2: set(usable[-2:])}


# How the results of several runs are combined. For all other results, the maximum.
COMBINED = {"per_second": statistics.median, "least_share": statistics.median, "busy": min, "allowed": sum,
            "denied": sum}


def summarize(runs):
    ns = [one["ns"] for one in runs]
    median = statistics.median(ns)
    others = {name: COMBINED.get(name, max)(one[name] for one in runs) for name in runs[0] if name != "ns"}
    return {"ns": median, "noise": (max(ns) - min(ns)) / median, **others, "ns_of_rounds": ns}


def measure_times(found, rounds, cpus):
    """found: contender -> (command, threads). Runs each once a round, in turn. Returns contender -> summary."""
    runs = {name: [] for name in found}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for name, (command, threads) in found.items():
            runs[name].append(json.loads(run(command, cpus[threads])[0]))
    return {name: summarize(one) for name, one in runs.items()}


def fastest(times):
    return {name: min(one["ns_of_rounds"]) for name, one in times.items()}


def ratio_ranges(ratios_of, times, rounds):
    """Ratio -> (minimum, maximum) over single rounds. ratios_of takes contender -> ns, and returns ratios."""
    each = [ratios_of({name: one["ns_of_rounds"][i] for name, one in times.items()}) for i in range(rounds)]
    return {name: (min(one[name] for one in each), max(one[name] for one in each)) for name in each[0]}


def collected(command, count, functions):
    toggles = [f"--toggle-collect={function}" for function in functions]
    # callgrind cannot handle the signals by which Go preempts. Garbage collection is not part of the work.
    env = os.environ | {"GODEBUG": "asyncpreemptoff=1", "GOGC": "off", "GOMAXPROCS": "1"}
    _, log = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *toggles, *command, "--count",
                  str(count)], env=env)
    return int(re.search(r"Collected : (\d+)", log)[1])


def instructions(command, functions, batch=1000):
    """Instructions of one decision, of a program that makes `batch` at a time. functions: count only inside these, if any."""
    few, many = 10 * batch, 110 * batch
    return (collected(command, many, functions) - collected(command, few, functions)) / (many - few)


def add_write(parser):
    parser.add_argument("--write", action="store_true", help="draw into docs/plots instead of build/bench/plots")


def write_plots(arguments, texts):
    """Writes files by name; returns their paths. Writes into docs only with --write, and never in a smoke test."""
    folder = "docs/plots" if arguments.write and not arguments.quick else "build/bench/plots"
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (ROOT / folder / name).write_text(text, encoding="utf-8")
    return [f"{folder}/{name}" for name in texts]


def add_rounds(parser, rounds, seconds):
    """Adds the options that most benchmarks have; read_rounds reads them."""
    parser.add_argument("--rounds", type=int, default=rounds, help=f"number of rounds ({rounds})")
    parser.add_argument("--seconds", type=float, default=seconds,
                        help=f"approximate duration of each measurement ({seconds})")
    add_quick(parser)


def add_quick(parser):
    parser.add_argument("--report-only", action="store_true", help="exit 0 even if a target is missed")
    parser.add_argument("--quick", action="store_true", help="a smoke test; its figures mean nothing")


def read_rounds(parser):
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.02
    if arguments.rounds < 1 or arguments.seconds <= 0:
        parser.error("--rounds and --seconds must be above 0")
    return arguments


def keyed(table):
    return {name if isinstance(name, str) else " ".join(map(str, name)): value for name, value in table.items()}


def percent(share):
    return f"{100 * share:.0f} %"


def machine(packages):
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    versions = {package: run(["dpkg-query", "-W", "-f", "${Version}", package])[0] for package in packages}
    go = run(["go", "version"])[0].strip() if "golang-go" in packages else None
    return {"cpu": cpu[1] if cpu else platform.machine(), "processors": os.cpu_count(), "kernel": platform.release(),
            "go": go, "packages": versions}


def print_machine(where):
    go = f", {where['go']}" if where["go"] else ""
    print(f"\n{where['cpu']}, {where['processors']} processors, Linux {where['kernel']}{go}")


def judge_ratios(promises, ratios, ranges):
    """Rows of (met, what) for each (ratio, ">=" or "<=", bound). ranges: minimum and maximum of single rounds, for some ratios."""
    notes = {name: f" (single rounds: {least:.2f} to {most:.2f})" for name, (least, most) in ranges.items()}
    rows = []
    for name, sign, bound in promises:
        met = ratios[name] >= bound if sign == ">=" else ratios[name] <= bound
        rows.append((met, f"{name}: {ratios[name]:.2f}, {'at least' if sign == '>=' else 'at most'} {bound}"
                          f"{notes.get(name, '')}"))
    return rows


def finish(bench, rows, ratios, result, arguments):
    """Prints figures and ratios, and writes the result as JSON. Returns the exit status."""
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

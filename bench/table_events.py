"""The curves of ./dev bench table --events: ns an operation on a key with 10 to 100,000 events, as numbers and as plots.
Not a benchmark itself."""

import json
import math
import sys

from harness import print_machine, run, write_plots
from table_curve import FAINT, INK, apart, spoken

EVENTS = "build/bench/table_events"
SIZES = [10, 100, 1_000, 10_000, 100_000]
QUICK_SIZES = [10, 100]
KINDS = {"log": "sliding log, as many events as it allows", "segments": "sliding counter, a unit in each sub-window"}
# Colours that colour-blind readers can tell apart.
COLOURS = ["#0b63b5", "#c2410c", "#0f766e", "#7c3aed", "#57606a", "#b45309", "#be185d", "#4d7c0f", "#0369a1", "#991b1b",
           "#334155"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 480, 72, 570, 56, 426


def measure(sizes, rounds, cpus):
    """(kind, operation, events) -> ns of the fastest round."""
    found = {}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for kind in KINDS:
            for line in run([EVENTS, kind, *map(str, sizes)], cpus[1])[0].splitlines():
                one = json.loads(line)
                place = (kind, one["operation"], one["events"])
                found[place] = min(one["ns"], found.get(place, math.inf))
    return found


def operations_of(found):
    return list(dict.fromkeys(operation for _, operation, _ in found))


def plot(found, kind, sizes, where):
    """Both axes are logarithmic."""
    low, high = 1.5, max(6.3, math.log10(max(found.values())))

    def across(events):
        return LEFT + math.log10(events / sizes[0]) / math.log10(sizes[-1] / sizes[0]) * (RIGHT - LEFT)

    def down(ns):
        return BOTTOM - (math.log10(ns) - low) / (high - low) * (BOTTOM - TOP)

    parts, ends = [], []
    for power in range(2, int(high) + 1):
        label = f"{10 ** power} ns" if power < 3 else f"{10 ** (power - 3)} us" if power < 6 else "1 ms"
        parts.append(f'<path d="M{LEFT} {down(10 ** power):.1f}H{RIGHT}" stroke="{FAINT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down(10 ** power):.1f}" dy="4" text-anchor="end">{label}</text>')
    parts.append(f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="{INK}"/>')
    for events in sizes:
        parts.append(f'<path d="M{across(events):.1f} {BOTTOM}v5" stroke="{INK}"/>')
        parts.append(f'<text x="{across(events):.1f}" y="{BOTTOM + 19}" text-anchor="middle">{spoken(events)}</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">events of the key</text>')
    for operation, colour in zip(operations_of(found), COLOURS):
        places = [(across(events), down(found[(kind, operation, events)])) for events in sizes]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append((places[-1][1], operation, colour))
    ends.sort()
    for (_, operation, colour), y in zip(ends, apart([end[0] for end in ends], 15)):
        parts.append(f'<text x="{RIGHT + 10}" y="{y:.1f}" dy="4" fill="{colour}" font-weight="bold">{operation}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
        f"<title>An operation by the number of events: {KINDS[kind]}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="27" font-size="16" font-weight="bold">An operation by the number of events<tspan dx="12" '
        f'font-size="12" font-weight="normal">{KINDS[kind]}; {where["cpu"]}</tspan></text>',
        *parts, "</svg>", ""])


def numbers(found, sizes, where):
    """In Markdown."""
    rows = [f"ns an operation on one key, one thread: {where['cpu']}, fastest of the rounds. Made by `./dev bench table "
            "--events`. Refund and undo copy the history once; all others search it."]
    for kind, label in KINDS.items():
        rows += ["", f"| {label} | " + " | ".join(f"{spoken(events)} events" for events in sizes) + " |",
                 "|---|" + "---:|" * len(sizes)]
        rows += [f"| {operation} | " + " | ".join(f"{found[(kind, operation, events)]:.0f}" for events in sizes) + " |"
                 for operation in operations_of(found)]
    return "\n".join(rows) + "\n"


def main(arguments, cpus, where):
    sizes = QUICK_SIZES if arguments.quick else SIZES
    found = measure(sizes, arguments.rounds, cpus)
    print(numbers(found, sizes, where), end="")
    print_machine(where)
    drawn = {f"table_events_{kind}.svg": plot(found, kind, sizes, where) for kind in KINDS}
    written = write_plots(arguments, {**drawn, "table_events.md": numbers(found, sizes, where)})
    print(f"\nreproduce: {' '.join(['./dev bench table', *sys.argv[1:]])}\nwritten: {', '.join(written)}")
    return 0

"""The curve of ./dev bench table --curve: ns a decision for 1000 to 100 million keys, as numbers and as a plot. Not a
benchmark itself."""

import json
import math
import sys

from harness import ROOT, fastest, keyed, measure_times, percent, print_machine, write_plots

SIZES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
QUICK_SIZES = [1_000, 2_000]
GO_MOST = 10_000_000  # 100 million limiters in a map need more memory than the largest machine here has

# Colours that colour-blind readers can tell apart, on a white background, as in examples/plots.
INK, FAINT = "#24292f", "#d8dee4"
# contender -> label, colour, dashes
LINES = {
    "xtime": ("Go map of x/time/rate", "#c2410c", "7 3"),
    "one": ("Weir, one by one", "#0b63b5", ""),
    "bare": ("bare: hash, clock, CAS", "#57606a", "2 3"),
    "batch": ("Weir, batches of 32", "#0f766e", ""),
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 420, 64, 600, 56, 366


def spoken(keys):
    for unit, letter in ((1_000_000, "M"), (1_000, "K")):
        if keys >= unit:
            return f"{keys // unit} {letter}"
    return str(keys)


def contenders(commands, sizes, seconds):
    found = {}
    for keys in sizes:
        for name in LINES:
            if name != "xtime" or keys <= GO_MOST:
                found[(keys, name)] = ([*commands[name][1], "--keys", str(keys), "--seconds", str(seconds)], 1)
    return found


# --- the plot -------------------------------------------------------------------------------------------------------

def scales(sizes, ns):
    """Two functions: the x of a number of keys, and the y of a time. Both axes are logarithmic."""
    least, most = math.log10(sizes[0]), math.log10(sizes[-1])
    low, high = math.log10(min(10, *ns)), math.log10(max(1000, *ns))

    def across(keys):
        return LEFT + (math.log10(keys) - least) / (most - least) * (RIGHT - LEFT)

    def down(time):
        return BOTTOM - (math.log10(time) - low) / (high - low) * (BOTTOM - TOP)

    return across, down


def draw_axes(sizes, across, down, ns):
    parts = []
    for time in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        if min(10, *ns) <= time <= max(1000, *ns):
            parts.append(f'<path d="M{LEFT} {down(time):.1f}H{RIGHT}" stroke="{INK if time == 10 else FAINT}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{down(time):.1f}" dy="4" text-anchor="end">{time}</text>')
    for keys in sizes:
        parts.append(f'<path d="M{across(keys):.1f} {BOTTOM}v5" stroke="{INK}"/>')
        parts.append(f'<text x="{across(keys):.1f}" y="{BOTTOM + 19}" text-anchor="middle">{spoken(keys)}</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">keys in the table</text>')
    parts.append(f'<text transform="translate(18 {(TOP + BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
                 "ns a decision</text>")
    return parts


def apart(wanted, least):
    """Heights near the wanted ones (sorted), at least `least` apart."""
    placed = []
    for height in wanted:
        placed.append(max(height, placed[-1] + least) if placed else height)
    return placed


def draw_lines(points, across, down):
    parts, ends = [], []
    for name, (label, colour, dashes) in LINES.items():
        of_name = sorted((keys, ns) for (keys, one), ns in points.items() if one == name)
        places = [(across(keys), down(ns)) for keys, ns in of_name]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"'
                     f'{f" stroke-dasharray={chr(34)}{dashes}{chr(34)}" if dashes else ""}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        ends.append((places[-1][1], places[-1][0], label, colour))
    ends.sort()
    for (_, x, label, colour), y in zip(ends, apart([end[0] for end in ends], 15)):
        parts.append(f'<text x="{x + 12:.1f}" y="{y:.1f}" dy="4" fill="{colour}" font-weight="bold">{label}</text>')
    return parts


def plot(points, sizes, where):
    across, down = scales(sizes, points.values())
    told = "; ".join(f"{LINES[name][0]}, {spoken(keys)}: {ns:.0f} ns" for (keys, name), ns in points.items())
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
        "<title>A decision by the number of keys</title>",
        f"<desc>{told}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="27" font-size="16" font-weight="bold">A decision by the number of keys<tspan dx="12" '
        f'font-size="12" font-weight="normal">one thread, uniform keys, clock included; {where["cpu"]}</tspan></text>',
        *draw_axes(sizes, across, down, points.values()),
        *draw_lines(points, across, down),
        "</svg>", ""])


# --- the numbers ----------------------------------------------------------------------------------------------------

def numbers(points, sizes, where):
    """In Markdown."""
    rows = [f"ns a decision, one thread, uniform keys, clock included: {where['cpu']}, fastest of the rounds. Made by "
            "`./dev bench table --curve`.", "",
            "| keys | " + " | ".join(label for label, _, _ in LINES.values()) + " |", "|---:|" + "---:|" * len(LINES)]
    for keys in sizes:
        cells = [f"{points[(keys, name)]:.0f}" if (keys, name) in points else "" for name in LINES]
        rows.append(f"| {spoken(keys)} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def main(commands, arguments, cpus, where):
    sizes = QUICK_SIZES if arguments.quick else SIZES
    times = measure_times(contenders(commands, sizes, arguments.seconds), arguments.rounds, cpus)
    points = fastest(times)
    print(numbers(points, sizes, where), end="")
    print(f"\nnoise, (largest - smallest) / median of {arguments.rounds} rounds of {arguments.seconds} s: at most "
          f"{percent(max(one['noise'] for one in times.values()))}")
    print_machine(where)
    result = "build/bench/table_curve.json"
    (ROOT / result).write_text(json.dumps({"machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds,
                                           "times": keyed(times)}, indent=1) + "\n", encoding="utf-8")
    written = [result, *write_plots(arguments, {"table_keys.svg": plot(points, sizes, where),
                                                "table_keys.md": numbers(points, sizes, where)})]
    print(f"\nreproduce: {' '.join(['./dev bench table', *sys.argv[1:]])}\nwritten: {', '.join(written)}")
    return 0

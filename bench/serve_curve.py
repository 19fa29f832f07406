"""The curves of ./dev bench serve --curve: CPU time of the server per request, by the number of connections and keys, as numbers
and as plots. Not a benchmark itself."""

import json
import math
import os
import shlex
import sys

import serve_peers
from harness import ROOT, keyed, percent, print_machine, summarize, write_plots
from table_curve import FAINT, INK, apart, spoken

CONNECTIONS, CONNECTIONS_QUICK = [1, 100, 10_000], [1, 100]
KEYS, KEYS_QUICK = [1_000, 1_000_000, 50_000_000], [1_000, 10_000]
USUAL_CONNECTIONS, USUAL_KEYS = 50, 1_000_000
THROTTLE = ["CL.THROTTLE", "key:__rand_int__", "2999999", "1", "180"]
PIPELINES_OF_EACH = 4  # at least, for each connection, because the measurement includes connecting
# pipeline -> label, colour, expected requests a second (sets how many a measurement sends)
LINES = {1: ("pipeline 1", "#c2410c", 60_000), 16: ("pipeline 16", "#0f766e", 600_000),
         64: ("pipeline 64", "#0b63b5", 1_200_000)}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 420, 76, 660, 56, 366
TICKS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


# --- measuring ------------------------------------------------------------------------------------------------------

def ask(server, load_cpus, pipeline, connections, keys, seconds):
    n = max(PIPELINES_OF_EACH * connections * pipeline, int(LINES[pipeline][2] * seconds))
    command = serve_peers.benchmark_command(server.where, min(load_cpus), pipeline, connections, keys, n, THROTTLE)
    print(shlex.join(command))
    return serve_peers.drive(server, command, n)


def fill(server, load_cpus, keys):
    """Sends as many requests as there are keys. 63 % of the keys are then in the table."""
    serve_peers.drive(server, serve_peers.benchmark_command(server.where, min(load_cpus), 64, 50, keys, max(keys, 3200),
                                                            THROTTLE), keys)


def measure(points, arguments, cpus, load_cpus):
    """points: (connections, keys). Returns (connections, keys, pipeline) -> summary. Starts a server for each number of keys."""
    runs = {}
    for keys in sorted({keys for _, keys in points}):
        with serve_peers.weir(cpus, keys + keys // 10 + 1000, serve_peers.ASLEEP) as server:
            print(f"filling in {spoken(keys)} keys", file=sys.stderr)
            fill(server, load_cpus, keys)
            for _ in range(arguments.rounds):
                for connections in sorted({one for one, of in points if of == keys}):
                    for pipeline in LINES:
                        runs.setdefault((connections, keys, pipeline), []).append(
                            ask(server, load_cpus, pipeline, connections, keys, arguments.seconds))
    return {name: summarize(one) for name, one in runs.items()}


# --- the plots ------------------------------------------------------------------------------------------------------

def scales(sizes, ns):
    least, most = math.log10(sizes[0]), math.log10(sizes[-1])
    low = max(tick for tick in TICKS if tick <= max(TICKS[0], min(ns)))
    high = min(tick for tick in TICKS if tick >= min(TICKS[-1], max(ns)))

    def across(size):
        return LEFT + (math.log10(size) - least) / (most - least) * (RIGHT - LEFT)

    def down(time):
        return BOTTOM - (math.log10(time) - math.log10(low)) / (math.log10(high) - math.log10(low)) * (BOTTOM - TOP)

    return across, down, [tick for tick in TICKS if low <= tick <= high]


def draw_axes(sizes, across, down, ticks, what):
    parts = []
    for time in ticks:
        parts.append(f'<path d="M{LEFT} {down(time):.1f}H{RIGHT}" stroke="{INK if time == ticks[0] else FAINT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down(time):.1f}" dy="4" text-anchor="end">{time}</text>')
    for size in sizes:
        parts.append(f'<path d="M{across(size):.1f} {BOTTOM}v5" stroke="{INK}"/>')
        parts.append(f'<text x="{across(size):.1f}" y="{BOTTOM + 19}" text-anchor="middle">{spoken(size)}</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{what}</text>')
    parts.append(f'<text transform="translate(20 {(TOP + BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
                 "ns of the server's processor</text>")
    return parts


def draw_lines(points, sizes, across, down):
    parts, ends = [], []
    for pipeline, (label, colour, _) in LINES.items():
        places = [(across(size), down(points[(size, pipeline)])) for size in sizes]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        ends.append((places[-1][1], label, colour))
    ends.sort()
    for (_, label, colour), y in zip(ends, apart([end[0] for end in ends], 15)):
        parts.append(f'<text x="{RIGHT + 12}" y="{y:.1f}" dy="4" fill="{colour}" font-weight="bold">{label}</text>')
    return parts


def plot(points, sizes, what, title, where):
    """points: (size, pipeline) -> ns."""
    across, down, ticks = scales(sizes, points.values())
    told = "; ".join(f"{spoken(size)}, {LINES[pipeline][0]}: {ns:.0f} ns" for (size, pipeline), ns in points.items())
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
        f"<title>{title}</title>",
        f"<desc>{told}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="27" font-size="16" font-weight="bold">{title}<tspan dx="12" font-size="12" '
        f'font-weight="normal">CL.THROTTLE, one worker; {where["cpu"]}</tspan></text>',
        *draw_axes(sizes, across, down, ticks, what),
        *draw_lines(points, sizes, across, down),
        "</svg>", ""])


def numbers(tables, where, rounds, load):
    """In Markdown."""
    rows = [f"ns of the server's processor for a CL.THROTTLE over TCP, one worker: {where['cpu']}, the fastest of {rounds}, "
            f"load before {load:.1f}. Made by `./dev bench serve --curve --write`."]
    for what, sizes, points in tables:
        rows += ["", f"| {what} | " + " | ".join(label for label, _, _ in LINES.values()) + " |",
                 "|---:|" + "---:|" * len(LINES)]
        rows += [f"| {spoken(size)} | " + " | ".join(f"{points[(size, pipeline)]:.0f}" for pipeline in LINES) + " |"
                 for size in sizes]
    return "\n".join(rows) + "\n"


def main(arguments, cpus, load_cpus, where):
    load = os.getloadavg()[0]
    serve_peers.raise_descriptors()
    by_connections, by_keys = (CONNECTIONS_QUICK, KEYS_QUICK) if arguments.quick else (CONNECTIONS, KEYS)
    usual = by_keys[1] if arguments.quick else USUAL_KEYS
    points = [(connections, usual) for connections in by_connections] + [(USUAL_CONNECTIONS, keys) for keys in by_keys]
    times = measure(points, arguments, cpus, load_cpus)
    ns = {name: min(one["ns_of_rounds"]) for name, one in times.items()}
    connections = {(one, pipeline): ns[(one, usual, pipeline)] for one in by_connections for pipeline in LINES}
    keys = {(one, pipeline): ns[(USUAL_CONNECTIONS, one, pipeline)] for one in by_keys for pipeline in LINES}
    said = numbers([(f"connections, {spoken(usual)} keys", by_connections, connections),
                    (f"keys, {USUAL_CONNECTIONS} connections", by_keys, keys)], where, arguments.rounds, load)
    print("\n" + said, end="")
    print(f"\nnoise, (largest - smallest) / median of {arguments.rounds} rounds of about {arguments.seconds} s: at most "
          f"{percent(max(one['noise'] for one in times.values()))}")
    print_machine(where)
    files = {"serve_connections.svg": plot(connections, by_connections, "connections",
                                           "A request by the number of connections", where),
             "serve_keys.svg": plot(keys, by_keys, "keys", "A request by the number of keys", where), "serve.md": said}
    result = "build/bench/serve_curve.json"
    (ROOT / result).write_text(json.dumps({"machine": where, "rounds": arguments.rounds, "seconds": arguments.seconds,
                                           "times": keyed(times)}, indent=1) + "\n", encoding="utf-8")
    written = [result, *write_plots(arguments, files)]
    print(f"\nreproduce: {' '.join(['./dev bench serve', *sys.argv[1:]])}\nwritten: {', '.join(written)}")
    return 0

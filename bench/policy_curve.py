"""The curve of ./dev bench policy: ns a decision by the number of limits, as numbers and as a plot. Not a benchmark itself."""

import math

from harness import write_plots
from table_curve import BOTTOM, FAINT, HEIGHT, INK, LEFT, RIGHT, TOP, WIDTH, apart, spoken


# contender -> label, colour, dashes
LINES = {"decide": ("match and decide", "#0b63b5", ""), "match": ("match alone", "#0f766e", "7 3")}


def numbers(points, sizes, where):
    """In Markdown."""
    rows = [f"ns of processor time for a request with five attributes that meets one limit, one thread: {where['cpu']}, "
            "fastest of the rounds. Made by `./dev bench policy --write`.", "",
            "| limits | " + " | ".join(label for label, _, _ in LINES.values()) + " |", "|---:|" + "---:|" * len(LINES)]
    for limits in sizes:
        rows.append(f"| {spoken(limits)} | " + " | ".join(f"{points[(name, limits, 1)]:.0f}" for name in LINES) + " |")
    return "\n".join(rows) + "\n"


def plot(points, sizes, where):
    """The scale of limits is logarithmic. The scale of time is linear and starts at 0, to show how much it grows."""
    least, most = math.log10(sizes[0]), math.log10(sizes[-1])
    highest = math.ceil(max(points.values()) / 250) * 250

    def across(limits):
        return LEFT + (math.log10(limits) - least) / (most - least) * (RIGHT - LEFT)

    def down(ns):
        return BOTTOM - ns / highest * (BOTTOM - TOP)

    parts = []
    for ns in range(0, highest + 1, 250 if highest <= 2000 else 500):
        parts.append(f'<path d="M{LEFT} {down(ns):.1f}H{RIGHT}" stroke="{FAINT if ns else INK}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down(ns):.1f}" dy="4" text-anchor="end">{ns}</text>')
    for limits in sizes:
        parts.append(f'<text x="{across(limits):.1f}" y="{BOTTOM + 19}" text-anchor="middle">{spoken(limits)}</text>')
    ends = []
    for name, (label, colour, dashes) in LINES.items():
        places = [(across(limits), down(points[(name, limits, 1)])) for limits in sizes]
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}" fill="none" stroke="{colour}" '
                     f'stroke-width="2"{dashed}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        ends.append((places[-1][1], places[-1][0], label, colour))
    ends.sort()
    for (_, x, label, colour), y in zip(ends, apart([end[0] for end in ends], 15)):
        parts.append(f'<text x="{x + 12:.1f}" y="{y:.1f}" dy="4" fill="{colour}" font-weight="bold">{label}</text>')
    told = "; ".join(f"{LINES[name][0]}, {spoken(limits)}: {ns:.0f} ns" for (name, limits, _), ns in points.items())
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
        "<title>A request by the number of limits</title>", f"<desc>{told}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="27" font-size="16" font-weight="bold">A request by the number of limits<tspan dx="12" '
        f'font-size="12" font-weight="normal">one of them applies; one thread; {where["cpu"]}</tspan></text>',
        f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">limits in the policy</text>',
        f'<text transform="translate(18 {(TOP + BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">ns a request</text>',
        *parts, "</svg>", ""])


def draw(points, sizes, where, arguments):
    return write_plots(arguments, {"policy_limits.svg": plot(points, sizes, where),
                                   "policy_limits.md": numbers(points, sizes, where)})

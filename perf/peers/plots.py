"""Plots as SVG: time over size, log-log, and below it the ratio to the best peer."""
import math
from xml.sax.saxutils import escape

from .formatting import significant, size_text, time_text

COLOURS = {"tutti": "#c2362b", "tutti registered": "#e58a2e", "openmpi": "#2f6db5", "mpich": "#3b8f5a", "intelmpi": "#7d55a8",
           "gloo": "#8a6d4b", "torch": "#4aa3a8"}
OTHERS = ("#b04a86", "#5b7f1f", "#c9a400", "#335577")
GREY = "#8a8a8a"
WIDTH, LEFT, RIGHT, TOP = 860, 78, 190, 68
TIME_HEIGHT, RATIO_HEIGHT, GAP = 330, 190, 54


def colour_of(name, names):
    """The same for a contender in every plot; builds with labels take what is left, in order."""
    others = [n for n in names if n not in COLOURS]
    return COLOURS.get(name) or OTHERS[others.index(name) % len(OTHERS)]


class Axis:
    """A logarithmic axis between two pixels."""

    def __init__(self, low, high, from_pixel, to_pixel):
        self.low, self.high = math.log10(low), math.log10(max(high, low * 1.01))
        self.from_pixel, self.to_pixel = from_pixel, to_pixel

    def at(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.from_pixel + part * (self.to_pixel - self.from_pixel)


class Drawing:
    def __init__(self, height):
        self.height, self.parts = height, []

    def line(self, x1, y1, x2, y2, colour="#dddddd", width=1.0, dash=""):
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{more}/>')

    def text(self, x, y, text, anchor="start", size=12, colour="#333333"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>')

    def curve(self, points, colour, dash="", width=2.0, dots=True):
        if len(points) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            more = f' stroke-dasharray="{dash}"' if dash else ""
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>')
        if dots:
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.8" fill="{colour}"/>' for x, y in points]

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" viewBox="0 0 {WIDTH} {self.height}" '
                f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def steps(low, high, most=9):
    """Marks of a logarithmic axis: 1, 2, 5 in each decade, or decades alone where those are too many."""
    marks = [m * 10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)]
    inside = [m for m in marks if low * 0.999 <= m <= high * 1.001]
    if len(inside) > most:
        inside = [m for m in inside if abs(math.log10(m) - round(math.log10(m))) < 1e-9]
    return inside


def limit_curves(records):
    """(label, [(bytes, us)]) of the limits that were measured."""
    copies = [(r["bytes"], r["limit"]["M_us"]) for r in records if "M_us" in r["limit"]]
    hops = [(r["bytes"], r["limit"]["L_ns"] / 1e3) for r in records if "L_ns" in r["limit"]]
    streams = [(r["bytes"], r["limit"]["stream_us"]) for r in records if "stream_us" in r["limit"]]
    return [(label, points) for label, points in (("M: all ranks copy", copies), ("L: one hop", hops),
                                                  ("plain stream both ways", streams)) if points]


def size_marks(draw, x, sizes, top, bottom):
    room = (x.to_pixel - x.from_pixel) / max(1, len(sizes) - 1)
    every = max(1, math.ceil(62 / room))
    for i, size in enumerate(sizes):
        draw.line(x.at(size), top, x.at(size), bottom)
        if i % every == 0:
            draw.text(x.at(size), bottom + 16, size_text(size), "middle", 11)


def frame(draw, x, y, marks, label):
    for mark, text in marks:
        draw.line(x.from_pixel, y.at(mark), x.to_pixel, y.at(mark))
        draw.text(x.from_pixel - 7, y.at(mark) + 4, text, "end", 11)
    draw.text(x.from_pixel, y.to_pixel - 8, label, "start", 12, "#555555")


def draw_times(draw, x, records, names):
    curves = [(n, [(r["bytes"], r["contenders"][n]["median_us"]) for r in records if "median_us" in r["contenders"].get(n, {})])
              for n in names]
    limits = limit_curves(records)
    values = [v for _, points in curves + limits for _, v in points]
    y = Axis(min(values) / 1.3, max(values) * 1.3, TOP + TIME_HEIGHT, TOP)
    size_marks(draw, x, [r["bytes"] for r in records], TOP, TOP + TIME_HEIGHT)
    frame(draw, x, y, [(m, time_text(m)) for m in steps(min(values), max(values))], "time of one operation (median, slowest rank)")
    legend = TOP + 8
    for name, points in curves:
        if not points:
            continue
        colour = colour_of(name, names)
        draw.curve([(x.at(b), y.at(v)) for b, v in points], colour, width=3.0 if name.startswith("tutti") else 1.8)
        draw.line(x.to_pixel + 16, legend, x.to_pixel + 40, legend, colour, 3.0)
        draw.text(x.to_pixel + 46, legend + 4, name)
        legend += 20
    for i, (label, points) in enumerate(limits):
        dash = ("6 4", "2 3", "10 3")[i % 3]
        draw.curve([(x.at(b), y.at(v)) for b, v in points], GREY, dash, 1.6, dots=len(points) == 1)
        draw.line(x.to_pixel + 16, legend, x.to_pixel + 40, legend, GREY, 1.6, dash)
        draw.text(x.to_pixel + 46, legend + 4, label)
        legend += 20


def draw_asked(draw, x, y, sizes, asked):
    """The goal's limit as steps over the sizes it holds for."""
    points = [(x.at(size), y.at(limit)) for size in sizes for limit in [next(l for most, l in asked if size <= most)]
              if y.low <= math.log10(limit) <= y.high]
    draw.curve(points, "#2a8f2a", "5 4", 1.4, dots=False)
    if points:
        draw.text(x.to_pixel + 16, max(points[-1][1] + 4, y.at(1) + 12), "goal", "start", 11, "#2a8f2a")


def draw_ratios(draw, x, records, names, top, asked):
    curves = [(n, [(r["bytes"], r["ratios"][n]["ratio"]) for r in records if r["ratios"].get(n, {}).get("ratio")]) for n in names]
    curves = [c for c in curves if c[1]]
    if not curves:
        return
    values = [v for _, points in curves for _, v in points] + [1.0] + [limit for _, limit in asked]
    y = Axis(min(values) / 1.15, max(values) * 1.15, top + RATIO_HEIGHT, top)
    size_marks(draw, x, [r["bytes"] for r in records], top, top + RATIO_HEIGHT)
    marks = [m for m in (.001, .002, .005, .01, .02, .05, .1, .2, .3, .5, .7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500) if min(values) / 1.15 <= m <= max(values) * 1.15]
    frame(draw, x, y, [(m, significant(m)) for m in marks], "time / best peer's (lower is better)")
    draw.line(x.from_pixel, y.at(1), x.to_pixel, y.at(1), "#555555", 1.4)
    if asked:
        draw_asked(draw, x, y, [r["bytes"] for r in records], asked)
    for name, points in curves:
        draw.curve([(x.at(b), y.at(v)) for b, v in points], colour_of(name, names), width=2.6)
    draw.text(x.to_pixel + 16, y.at(1) + 1, "1: as the best peer", "start", 11, "#555555")


def plot(title, subtitle, records, names, asked=()):
    """The SVG of one group of cases that differ by size alone; "" where there is nothing to draw.

    asked: a goal's limits of the ratio, (bytes at most, limit).
    """
    records = sorted((r for r in records if r["bytes"] > 0), key=lambda r: r["bytes"])
    names = [n for n in names if any("median_us" in r["contenders"].get(n, {}) for r in records)]
    if len(records) < 2 or not names:
        return ""
    ratio = any(v.get("ratio") for r in records for v in r["ratios"].values())
    draw = Drawing(TOP + TIME_HEIGHT + (GAP + RATIO_HEIGHT if ratio else 0) + 34)
    x = Axis(records[0]["bytes"], records[-1]["bytes"], LEFT, WIDTH - RIGHT)
    draw.text(LEFT, 20, title, size=15)
    draw.text(LEFT, 36, subtitle, size=11, colour="#666666")
    draw_times(draw, x, records, names)
    if ratio:
        draw_ratios(draw, x, records, names, TOP + TIME_HEIGHT + GAP, asked)
    return draw.svg()

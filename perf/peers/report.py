"""What people read: the table, and what stands above it."""
import datetime
import json
import os
import platform
import subprocess

from . import plots
from .contenders import ROOT
from .formatting import significant, size_text, time_text


def first(path, key):
    try:
        with open(path) as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith(key))
    except (OSError, StopIteration):
        return ""


def commit():
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    return git("rev-parse", "--short=12", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def available_memory():
    """Bytes, or None where the system does not say."""
    text = first("/proc/meminfo", "MemAvailable").split()
    return int(text[0]) << 10 if text and text[0].isdigit() else None


def content(path):
    with open(path) as file:
        return file.read().strip()


def machine(cpus):
    model = first("/proc/cpuinfo", "model name") or platform.machine()
    caches = {}
    base = "/sys/devices/system/cpu/cpu0/cache"
    for index in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        try:
            read = {name: content(os.path.join(base, index, name)) for name in ("level", "type", "size")}
        except OSError:
            continue
        if read["type"] != "Instruction":
            caches["L" + read["level"]] = read["size"]
    return {"processor": model, "family": first("/proc/cpuinfo", "cpu family"), "model": first("/proc/cpuinfo", "model\t"),
            "cpus": len(cpus), "caches": caches, "memory": first("/proc/meminfo", "MemTotal"), "kernel": platform.release(),
            "load_before": os.getloadavg()[0], "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "commit": commit()}


def heading(about):
    lines = [f"{about['processor']} (family {about['family']}, model {about['model']}), {about['cpus']} CPUs, "
             + ", ".join(f"{k} {v}" for k, v in about["caches"].items()),
             f"Linux {about['kernel']}, {about['date']}, Tutti {about['commit']}, load before {about['load_before']:.1f}"]
    for name, peer in about["contenders"].items():
        said = ", ".join(text for text in (peer.get("version"), peer.get("settings")) if text)
        lines.append(f"  {name}: {peer['missing'] if 'missing' in peer else said}")
    return "\n".join(lines)


def cell(record):
    """A contender's median; with "!" where its data was wrong."""
    if "median_us" not in record:
        return "-"
    return time_text(record["median_us"]) + ("!" if record.get("wrong") else "")


def percent(part):
    return "-" if part is None else f"{100 * part:.0f} %"


def rows(records, names):
    """The table's cells, a header first; columns without a value are left out."""
    shown = [n for n in names if any("median_us" in r["contenders"].get(n, {}) for r in records)]
    ours = [n for n in shown if n.startswith("tutti")]
    mine = [n.removeprefix("tutti ") for n in ours]
    table = [["size", *shown, "spread", "disturbed", "best peer", *(f"{n}/best" for n in mine), *(f"{n}/best of minima" for n in mine),
              "M", *(f"{n}/M" for n in mine), "L", "stream", *(f"{n}/stream" for n in mine)]]
    for r in records:
        ratio = lambda n, what: r["ratios"].get(n, {}).get(what)  # noqa: E731
        number = lambda value: significant(value) if value is not None else "-"  # noqa: E731
        limit = r["limit"]
        best = next((v["best_peer"] for v in r["ratios"].values() if v["best_peer"]), None)
        spread = max((r["contenders"][n]["spread"] for n in ours if "spread" in r["contenders"].get(n, {})), default=None)
        disturbed = [c["disturbed"] for c in r["contenders"].values() if "disturbed" in c]
        table.append([size_text(r["bytes"]), *(cell(r["contenders"].get(n, {})) for n in shown), percent(spread),
                      percent(sum(disturbed) / len(disturbed) if disturbed else None), best or "-",
                      *(number(ratio(n, "ratio")) for n in ours), *(number(ratio(n, "min_ratio")) for n in ours),
                      time_text(limit["M_us"]) if "M_us" in limit else "-",
                      *(number(ratio(n, "of_M")) for n in ours), f"{limit['L_ns']:.0f} ns" if "L_ns" in limit else "-",
                      time_text(limit["stream_us"]) if "stream_us" in limit else "-",
                      *(number(ratio(n, "of_stream")) for n in ours)])
    keep = [i for i in range(len(table[0])) if i == 0 or any(row[i] != "-" for row in table[1:])]
    return [[row[i] for i in keep] for row in table]


def aligned(table):
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in table)


def group_of(record):
    return tuple(record[k] for k in ("collective", "type", "op", "ranks", "transport", "network", "inputs", "in_place",
                                     "offset", "division"))


def group_title(key):
    collective, kind, op, ranks, transport, network, inputs, in_place, offset, division = key
    reduces = f" {op}" if collective in ("all_reduce", "reduce", "reduce_scatter") else ""
    return (f"{collective} {kind}{reduces}, {ranks} ranks, {transport}" + (f" over {network}" if network != "host" else "")
            + f", inputs {inputs}" + (", in place" if in_place else "")
            + (f", {offset} bytes behind a page" if offset else "") + (f", division {division}" if division != "even" else ""))


def groups_of(records):
    """Records that differ by size alone, together."""
    groups = {}
    for record in records:
        if "ratios" in record:
            groups.setdefault(group_of(record), []).append(record)
    return groups


def tables(records, names):
    """A table a group, medians in it."""
    return "\n\n".join(group_title(key) + "\n" + aligned(rows(group, names)) for key, group in groups_of(records).items())


def occasion_tables(records):
    """What waiting and joining came to, a line a contender."""
    lines = []
    for record in records:
        for name, c in record["contenders"].items():
            who = f"{name}, {record['ranks']} ranks, {record['transport']}"
            if "core" in c:
                lines.append(f"waiting {c['seconds']:.1f} s for a late peer: {who}: {100 * c['core']:.2f} % of a core")
            if "median_ms" in c:
                lines.append(f"init: {who}: {c['median_ms']:.1f} ms (from {c['min_ms']:.1f} to {c['max_ms']:.1f})")
    return "\n".join(lines)


def notes(records):
    """What was not compared, and whose results were wrong, once each."""
    said = []
    for record in records:
        for name, c in record["contenders"].items():
            if c.get("wrong"):
                said.append(f"{name}: WRONG DATA in {record['collective']} of {size_text(record['bytes'])}: {c.get('sentence', '')}")
            for what in ("lacks", "failed"):
                if what in c:
                    said.append(f"{name}: {record['collective']} {record['type']}: {c[what]}")
    return list(dict.fromkeys(said))


def save(folder, name, about, records, text, names, asked=()):
    """The table, the data, and a plot a table."""
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, name)
    with open(base + ".json", "w") as file:
        json.dump({"about": about, "records": records}, file, separators=(",", ":"))
        file.write("\n")
    with open(base + ".txt", "w") as file:
        file.write(text + "\n")
    subtitle = f"{about['processor']}, {about['cpus']} CPUs, {about['date'][:10]}, Tutti {about['commit']}"
    for key, group in groups_of(records).items():
        drawn = plots.plot(group_title(key), subtitle, group, names, asked)
        if drawn:
            *parts, in_place, offset, division = key
            kind = ("-".join(map(str, parts)) + ("-in-place" if in_place else "") + (f"-offset-{offset}" if offset else "")
                    + (f"-{division}" if division != "even" else ""))
            with open(f"{base}-{kind.replace(':', '-')}.svg", "w") as file:
                file.write(drawn)

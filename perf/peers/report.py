"""What people read: the table, and what stands above it."""
import datetime
import json
import os
import platform
import subprocess

from .catalogue import ROOT
from .words import significant, size_text, time_text


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


def machine(cpus):
    model = first("/proc/cpuinfo", "model name") or platform.machine()
    caches = {}
    base = "/sys/devices/system/cpu/cpu0/cache"
    for index in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        try:
            read = {name: open(os.path.join(base, index, name)).read().strip() for name in ("level", "type", "size")}
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


def rows(records, names):
    """The table's cells, a header first."""
    shown = [n for n in names if any("median_us" in r["contenders"].get(n, {}) for r in records)]
    ours = [n for n in shown if n.startswith("tutti")]
    table = [["size", *shown, "spread", "best peer", *(f"{n} / best" for n in ours), "M", "L ns", *(["stream"])]]
    for r in records:
        cells = [size_text(r["bytes"])]
        for n in shown:
            c = r["contenders"].get(n, {})
            cells.append(time_text(c["median_us"]) + ("!" if c.get("wrong") else "") if "median_us" in c else "-")
        spreads = [c["spread"] for n, c in r["contenders"].items() if n in ours and "spread" in c]
        best = next((v["best_peer"] for v in r["ratios"].values() if v["best_peer"]), None)
        cells += [f"{100 * max(spreads, default=0):.0f} %", best or "-"]
        for n in ours:
            ratio = r["ratios"].get(n, {}).get("ratio")
            cells.append(significant(ratio) if ratio else "-")
        limit = r["limit"]
        cells.append(time_text(limit["M_us"]) if "M_us" in limit else "-")
        cells.append(significant(limit["L_ns"]) if "L_ns" in limit else "-")
        cells.append(time_text(limit["stream_us"]) if "stream_us" in limit else "-")
        table.append(cells)
    keep = [i for i in range(len(table[0])) if i == 0 or any(row[i] != "-" for row in table[1:])]
    return [[row[i] for i in keep] for row in table]


def aligned(table):
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in table)


def group_of(record):
    return tuple(record[k] for k in ("collective", "type", "op", "ranks", "transport", "network", "inputs", "in_place"))


def group_title(key):
    collective, kind, op, ranks, transport, network, inputs, in_place = key
    reduces = f" {op}" if collective in ("all_reduce", "reduce", "reduce_scatter") else ""
    return (f"{collective} {kind}{reduces}, {ranks} ranks, {transport}" + (f" over {network}" if network != "host" else "")
            + f", inputs {inputs}" + (", in place" if in_place else ""))


def tables(records, names):
    """A table a group of cases that differ by size alone, medians in it."""
    groups = {}
    for record in records:
        groups.setdefault(group_of(record), []).append(record)
    return "\n\n".join(group_title(key) + "\n" + aligned(rows(group, names)) for key, group in groups.items())


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


def save(folder, name, about, records, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump({"about": about, "records": records}, file, indent=None, separators=(",", ":"))
        file.write("\n")
    with open(os.path.join(folder, name + ".txt"), "w") as file:
        file.write(text + "\n")

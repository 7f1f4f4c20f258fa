"""The goals this library is held to, as data: what to run for each, and what its numbers are compared with."""
import math
from dataclasses import dataclass, field

from .formatting import SUFFIXES, significant, size_text

K, M = SUFFIXES["K"], SUFFIXES["M"]
ANY = math.inf


@dataclass
class Goal:
    """A run's arguments and what is asked of each of its lines. Limits by size are lists of (bytes at most, limit)."""
    title: str
    arguments: list
    ratio: list = field(default_factory=list)  # of our median to the best peer's, at most
    hops: tuple = ()  # (bytes at most, times L, ns more)
    copies: tuple = ()  # (bytes from, times M)
    stream: float = 0.0  # of what a plain stream carries, at least
    type_ratio: float = 0.0  # of another type's time to float32's of as many bytes, at most
    idle: float = 0.0  # of a core, at most
    init_ms: list = field(default_factory=list)  # by ranks


COLLECTIVES = "all_gather reduce_scatter broadcast reduce all_to_all gather scatter send_recv barrier".split()
GOALS = {
    "small": Goal("shm, 2 ranks, 8 B - 1 KiB", "all_reduce -b 8 -e 1K -f 2 --peers mpi --rounds 31".split(),
                  ratio=[(ANY, .6)], hops=(8, 1.5, 50)),
    "medium": Goal("shm, 2 ranks, 4 - 32 KiB", "all_reduce -b 4K -e 32K -f 2 --peers mpi --rounds 31".split(), ratio=[(ANY, .75)]),
    "middle": Goal("shm, 2 ranks, 64 KiB - 2 MiB", "all_reduce -b 64K -e 2M -f 2 --peers mpi --rounds 31".split(), ratio=[(ANY, .85)]),
    "large": Goal("shm, 2 ranks, 4 - 256 MiB", "all_reduce -b 4M -e 256M -f 2 --peers mpi".split(), ratio=[(ANY, .55)]),
    "registered": Goal("registered, 2 ranks, 32 KiB - 256 MiB, as usual and fresh",
                       "all_reduce -b 32K -e 256M -f 2 --peers mpi --memory registered --inputs usual,fresh".split(),
                       ratio=[(ANY, .5)], copies=(16 * M + 1, 1.25)),
    "crowded": Goal("shm, 4 and 8 ranks", "all_reduce --ranks 4,8 -b 8 -e 64M -f 4 --peers mpi".split(),
                    ratio=[(4 * K, .6), (128 * K, .75), (ANY, .85)]),
    "tcp": Goal("tcp (loopback), 2 and 4 ranks, 8 B - 128 MiB",
                "all_reduce --transport tcp --ranks 2,4 -b 8 -e 128M -f 4 --peers mpi,gloo".split(), ratio=[(ANY, .75)]),
    "wire": Goal("tcp over veth pairs at 1 and 10 Gbit/s and unshaped, 64 MiB",
                 "all_reduce --transport tcp --network veth:1G,veth:10G,veth --sizes 64M --peers none --case-time 40".split(),
                 stream=.95),
    "collectives": Goal("the other collectives, shm, 2 and 4 ranks, 8 B - 64 MiB",
                        [*COLLECTIVES, *"--ranks 2,4 -b 8 -e 64M -f 8 --peers mpi --case-time 8".split()], ratio=[(ANY, .8)]),
    "v_variants": Goal("v-variants, even and skewed, shm, 2 and 4 ranks, 64 B - 16 MiB",
                       "all_gather_v all_to_all_v --division even,skewed --ranks 2,4 -b 64 -e 16M -f 8 --peers mpi --case-time 8".split(),
                       ratio=[(ANY, .85)]),
    "types": Goal("float16, bfloat16, int8, 2 ranks, 16 MiB", "all_reduce -d float32,float16,bfloat16,int8 --sizes 16M --peers none "
                  "--rounds 31".split(), type_ratio=1.1),
    "torch": Goal("PyTorch's Gloo, 2 ranks", "all_reduce --sizes 8,64,512,4K,16M,64M --peers torch".split(),
                  ratio=[(4 * K, .01), (ANY, .25)]),
    "idle": Goal("a rank that waits 10 s for a late peer", "--measure idle --peers all".split(), idle=.01),
    "init": Goal("init, 2 and 64 ranks, processes and threads", "--measure init --ranks 2,64 --peers mpi,gloo --rounds 7".split(),
                 init_ms=[(2, 50), (64, 1000)]),
}


@dataclass
class Verdict:
    """One number beside what is asked of it."""
    what: str
    value: float
    limit: float
    met: bool
    why_not_judged: str = ""

    def text(self):
        if self.why_not_judged:
            return f"MISSED {self.what}: {self.why_not_judged}, asked {significant(self.limit)}"
        return f"{'met   ' if self.met else 'MISSED'} {self.what}: {significant(self.value)}, asked {significant(self.limit)}"


def by_size(limits, size):
    return next(limit for most, limit in limits if size <= most)


def at_most(what, value, limit):
    return Verdict(what + " at most", value, limit, value <= limit)


def not_judged(what, limit, why):
    """A number that is missing is no number that was met."""
    return Verdict(what, math.nan, limit, False, why)


def ours_of(record):
    return [(name, found) for name, found in record["contenders"].items() if name.startswith("tutti")]


def judge_line(goal, record):
    """Verdicts on one line of the table."""
    said = (f"{record['collective']} {record['type']}, {record['ranks']} ranks, {record['transport']}"
            + (f" {record['network']}" if record["network"] != "host" else "") + f", {record['inputs']}, {size_text(record['bytes'])}"
            + (f", {record['division']}" if record["division"] != "even" else ""))
    for name, ours in ours_of(record):
        ratio = record["ratios"].get(name)
        asked = by_size(goal.ratio, record["bytes"]) if goal.ratio else goal.stream or goal.type_ratio
        if ratio is None:
            yield not_judged(f"{said}: {name}", asked, ours.get("failed") or ours.get("lacks") or "it was not timed")
            continue
        if goal.ratio and ratio["ratio"] is None:
            yield not_judged(f"{said}: {name} / best peer", asked, "no peer was timed")
        elif goal.ratio:
            yield at_most(f"{said}: {name} / {ratio['best_peer']}", ratio["ratio"], by_size(goal.ratio, record["bytes"]))
        if goal.hops and "L_ns" in record["limit"] and record["bytes"] <= goal.hops[0]:
            yield at_most(f"{said}: {name}, ns", ours["median_us"] * 1e3, goal.hops[1] * record["limit"]["L_ns"] + goal.hops[2])
        if goal.copies and record["bytes"] >= goal.copies[0] and "of_M" in ratio:
            yield at_most(f"{said}: {name} / M", ratio["of_M"], goal.copies[1])
        if goal.stream and "of_stream" in ratio:
            value = ratio["of_stream"]
            yield Verdict(f"{said}: {name}'s part of a plain stream at least", value, goal.stream, value >= goal.stream)


def judge_types(goal, records):
    """Other types' times beside float32's."""
    base = {(r["ranks"], r["bytes"], n): c["median_us"] for r in records if r["type"] == "float32"
            for n, c in r["contenders"].items() if "median_us" in c}
    for r in records:
        for name in r["ratios"]:
            key = (r["ranks"], r["bytes"], name)
            if r["type"] != "float32" and key in base:
                yield at_most(f"{r['collective']} {r['type']}, {size_text(r['bytes'])}: {name} / float32",
                              r["contenders"][name]["median_us"] / base[key], goal.type_ratio)


def judge(goal, records):
    """All verdicts of a run."""
    verdicts = [v for r in records if "ratios" in r for v in judge_line(goal, r)]
    if goal.type_ratio:
        verdicts += judge_types(goal, records)
    for r in records:
        for name, c in ours_of(r) if "measure" in r else ():
            if "core" not in c and "median_ms" not in c:
                verdicts.append(not_judged(f"{r['measure']} of {r['ranks']} ranks: {name}",
                                           goal.idle or by_size(goal.init_ms, r["ranks"]), c.get("failed", "it was not measured")))
            if goal.idle and "core" in c:
                verdicts.append(at_most(f"waiting: {name}'s part of a core", c["core"], goal.idle))
            if goal.init_ms and "median_ms" in c:
                verdicts.append(at_most(f"init of {r['ranks']} ranks: {name}, ms", c["median_ms"], by_size(goal.init_ms, r["ranks"])))
    return verdicts

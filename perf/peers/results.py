"""Statistics over rounds, and the ratios that the goals are about."""
import statistics

from .cases import bus_factor


def summary(times):
    """Microseconds of the rounds as they came: median, least, most, quartiles, and the spread between them."""
    ordered = sorted(times)
    low, high = (statistics.quantiles(ordered, n=4)[::2] if len(ordered) > 1 else (ordered[0], ordered[0]))
    median = statistics.median(ordered)
    return {"median_us": median, "min_us": ordered[0], "max_us": ordered[-1], "p25_us": low, "p75_us": high,
            "spread": (high - low) / median if median else 0.0, "rounds": len(ordered)}


def right_peers(contenders, peers):
    """Those that were timed and whose data was right."""
    return [name for name in peers if "median_us" in contenders.get(name, {}) and not contenders[name].get("wrong")]


def best_peer(contenders, peers):
    """The name of the peer with the least median, None without peers."""
    return min(right_peers(contenders, peers), key=lambda name: contenders[name]["median_us"], default=None)


def ratios(contenders, peers, ours, limit=None, carried=0.0):
    """For each of ours: the best peer, our median over its median, our minimum over the peers' least, over M, and our part of a stream.

    carried: the bytes that each rank sends, over those that it sends in the stream beside it.
    """
    best, limit, found = best_peer(contenders, peers), limit or {}, {}
    for name in ours:
        if "median_us" not in contenders.get(name, {}):
            continue
        mine, other = contenders[name], contenders.get(best)
        least = min((contenders[n]["min_us"] for n in right_peers(contenders, peers)), default=None)
        found[name] = {"best_peer": best, "ratio": mine["median_us"] / other["median_us"] if other else None,
                       "min_ratio": mine["min_us"] / least if least else None}
        if "M_us" in limit:
            found[name]["of_M"] = mine["median_us"] / limit["M_us"]
        if "stream_us" in limit:
            found[name]["of_stream"] = carried * limit["stream_us"] / mine["median_us"]
    return found


def limit_of(limits):
    """{"L_ns", "M_us", "stream_us"}, each where it was measured: M is the faster of the two kinds of copy."""
    found = {}
    if "hop" in limits:
        found["L_ns"] = limits["hop"]["median_us"] * 1e3 / 2
    copies = [limits[kind]["median_us"] for kind in ("copy", "copy_streaming") if kind in limits]
    if copies:
        found["M_us"] = min(copies)
    if "stream" in limits:
        found["stream_us"] = limits["stream"]["median_us"]
    return found


def line(setting, case, contenders, limits, peers, ours):
    """A case's record: what it was, every contender's times, ratios, limits."""
    limit, carried = limit_of(limits), bus_factor(case.collective, setting.ranks)
    return {"collective": case.collective, "bytes": case.real_bytes(setting.ranks), "count": case.count(setting.ranks),
            "type": case.type, "op": case.op, "ranks": setting.ranks, "transport": setting.transport,
            "network": setting.network, "inputs": case.inputs, "in_place": case.in_place, "offset": case.offset, "division": case.division,
            "contenders": contenders,
            "limits": limits, "limit": limit, "ratios": ratios(contenders, peers, ours, limit, carried)}

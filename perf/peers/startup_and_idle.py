"""What is no matter of turns: the CPU time of a rank that waits for a late peer, and how long joining takes."""
import os
import statistics
import subprocess
import sys
import time

from .processes import Ranks, cpu_seconds, die_with_parent

SETTLED = 0.03  # seconds after which a wait has gone over to its lasting form; the promise is about the time after 10 ms
MARGIN = 0.05


def wait_for_late(ranks, seconds):
    """The part of a core that rank 0 takes while it waits `seconds` in an all-reduce for the others."""
    ranks.ask("case collective=all_reduce type=float32 op=sum root=0 count=2 in_place=0 slots=1")
    ranks.ask("time warm=100 batch=100")
    ranks.send(f"late milliseconds={round(seconds * 1000)}")
    begin = time.monotonic()
    time.sleep(SETTLED)
    before, first = cpu_seconds(ranks.pids[0]), time.monotonic()
    time.sleep(max(0.01, seconds - MARGIN - (time.monotonic() - begin)))
    after, last = cpu_seconds(ranks.pids[0]), time.monotonic()
    for reply in ranks.receive():
        if "error" in reply:
            return {"failed": reply["error"]}
    ranks.ask("drop")
    return {"core": (after - before) / (last - first), "seconds": last - first}


def join_once(contender, place, deadline):
    """Milliseconds of the slowest rank from its call to its return, in processes of their own that then end; and a note."""
    launch = contender.launch(place)
    ranks = Ranks(contender.name, launch.commands, {**os.environ, **launch.environment}, contender.processes(place), place.folder,
                  deadline)
    try:
        started = ranks.ask("start")
        ranks.quit()
        return max(reply["ns"] for reply in started) / 1e6, {"version": started[0]["version"], "settings": launch.settings}
    finally:
        ranks.kill()


def joins(times):
    return {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times), "times_ms": [round(t, 3) for t in times]}


class Strangers:
    """Processes that compute, `each` on every one of `cpus`, until the end of the `with`. A context manager."""

    def __init__(self, each, cpus):
        self.cpus = [cpu for cpu in cpus for _ in range(each)]

    def __enter__(self):
        def settle(cpu):
            die_with_parent()
            os.sched_setaffinity(0, [cpu])

        self.running = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda cpu=cpu: settle(cpu))
                        for cpu in self.cpus]

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()

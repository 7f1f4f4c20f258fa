#!/usr/bin/env python3
"""Stands for every program of a pack, by the name under which it was started, and only pretends.

PRETEND_DEVICE: "none" for a machine without a driver, "mute" for a device that does not answer.
PRETEND_WRONG: as tutti-perf, elements that are wrong.  PRETEND_SLOW: as gpu_figures, seconds that each figure takes.
As a GoogleTest program its cases do what their names say.
"""
import json
import os
import signal
import subprocess
import sys
import time

CASES = ("Good.Passes", "Bad.Crashes", "Good.Skips", "Bad.Fails", "Bad.Hangs", "Good.PassesLast")
FIGURES = {"copy": {"bytes": 64 << 20, "copy_GBps": 1000.0, "median_us": 134.2}, "launch": {"median_us": 5.0},
           "release": {"median_us": 3.0}, "latency": {"bytes": 8, "threads_us": 14.0},
           "replay": {"bytes": 8, "kernel_us": 10.0, "replay_us": 12.0},
           "abort": {"median_us": 900.0, "most_us": 4000.0}}


def word(option, default=""):
    return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else default


def figures():
    name = sys.argv[1]
    device = os.environ.get("PRETEND_DEVICE", "")
    if name == "device":
        if device == "none":
            print(json.dumps({"figure": name, "refused": "This machine has no CUDA driver"}))
            return 2
        if device == "mute":
            print("a word of the driver's")
            return 1
        print(json.dumps({"figure": name, "device": "Pretended GPU 9", "memory_bytes": 80 << 30, "driver_api": 13000,
                          "standin": False}))
        return 0
    time.sleep(float(os.environ.get("PRETEND_SLOW", "0")))
    if name == "fold" and word("--type") == "int8":
        print(json.dumps({"figure": name, "lacks": "Folds of int8 are not there yet."}))
        return 0
    if name == "fold":
        for size in word("--bytes").split(","):
            print(json.dumps({"figure": name, "bytes": int(size), "type": word("--type"), "inputs": int(word("--inputs")),
                              "fold_GBps": 905.0}))
        return 0
    print(json.dumps({"figure": name, **FIGURES[name]}))
    return 0


def perf():
    """Every collective takes as long as a copy of 810 GB/s would for its least traffic."""
    verb, ranks, first, last = sys.argv[1], int(word("-t")), int(word("-b")), int(word("-e"))
    if verb == os.environ.get("PRETEND_REFUSED"):
        print(json.dumps({"error": f"{verb} is not there yet", "exit": 2}))
        return 2
    size = first
    while size <= last:
        bytes_moved = size * (2 * ranks if verb in ("all_reduce", "all_to_all") else ranks + 1)
        print(json.dumps({"collective": verb, "bytes": size, "ranks": ranks,
                          "wrong": int(os.environ.get("PRETEND_WRONG", "0")), "time_us": {"median": bytes_moved / 810e3}}))
        size *= int(word("-f"))
    return 0


def case(name):
    print(f"[ RUN      ] {name}", flush=True)
    verdict = "       OK "
    if name == "Bad.Crashes":
        os.kill(os.getpid(), signal.SIGABRT)
    if name == "Bad.Hangs":
        child = subprocess.Popen(["sleep", "600"])
        with open(os.path.join(os.path.dirname(sys.argv[0]), "sleeper"), "w") as file:
            file.write(str(child.pid))
        time.sleep(600)
    if name == "Good.Skips":
        print("some_test.cpp:7: Skipped\na real driver does not promise this\n")
        verdict = "  SKIPPED "
    if name == "Bad.Fails":
        print("a number was 7")
        verdict = "  FAILED  "
    print(f"[{verdict}] {name} (1 ms)", flush=True)
    return "FAILED" not in verdict


def main():
    name = os.path.basename(sys.argv[0])
    if name == "gpu_figures":
        return figures()
    if name == "tutti-perf":
        return perf()
    if name == "tutti-doctor":
        print(json.dumps({"health": "good"}))
        return 0
    if "--gtest_list_tests" in sys.argv:
        print("Good.\n  Passes\n  Skips\n  PassesLast\n  DISABLED_Never\nBad.\n  Crashes\n  Fails  # GetParam() = 4\n  Hangs")
        return 0
    chosen = next(a.split("=", 1)[1] for a in sys.argv if a.startswith("--gtest_filter=")).split(":")
    return 0 if all([case(each) for each in CASES if each in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())

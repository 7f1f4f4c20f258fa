"""Speaks GoogleTest's command line and output (gtest_list_tests) and only pretends: pretender.py COUNTS [FLAGS].

Cases: Good.Passes, Good.Skips, Good/Takes.Long/0 (a second, as it says), Bad.Fails (every third time, by a count in the folder
COUNTS), and, with PRETEND set to its name, Bad.Crashes and Bad.Hangs, which have a child of their own.
"""
import os
import re
import signal
import subprocess
import sys
import time

CASES = ["Good.Passes", "Good.Skips", "Good/Takes.Long/0", "Bad.Fails"] + [c for c in (os.environ.get("PRETEND"),) if c]
MS = {"Good/Takes.Long/0": 1000}


def flag(name, default):
    found = [a.split("=", 1)[1] for a in sys.argv if a.startswith(f"--gtest_{name}=")]
    return found[-1] if found else default


def count(folder, case):
    """How often the case has run, this time included; one byte a run, so that processes do not disturb each other."""
    with open(os.path.join(folder, re.sub(r"\W", "_", case)), "ab") as file:
        file.write(b"x")
        return file.tell()


def run(case, folder):
    print(f"[ RUN      ] {case}", flush=True)
    times = count(folder, case)
    result = "       OK "
    if case == "Good.Skips":
        result = "  SKIPPED "
    if case == "Bad.Fails" and times % 3 == 0:
        print("a number was 7")
        result = "  FAILED  "
    if case == "Bad.Crashes" and times > 1:
        os.kill(os.getpid(), signal.SIGABRT)
    if case == "Bad.Hangs" and times > 1:
        child = subprocess.Popen(["sleep", "600"])
        with open(os.path.join(folder, "sleeper"), "w") as file:
            file.write(str(child.pid))
        time.sleep(600)
    where = ", where GetParam() = 4" if "/" in case and "FAILED" in result else ""
    print(f"noise[{result}] {case}{where} ({MS.get(case, 1)} ms)", flush=True)
    return "FAILED" not in result


def main():
    folder = sys.argv[1]
    if "--gtest_list_tests" in sys.argv:
        for case in CASES:
            suite, name = case.split(".")
            print(f"{suite}.\n  {name}" + ("  # GetParam() = 4" if "/" in case else ""))
        return 0
    chosen = flag("filter", "*").split(":")
    good = True
    for iteration in range(int(flag("repeat", "1"))):
        print(f"\nRepeating all tests (iteration {iteration + 1}) . . .\n")
        results = [run(case, folder) for case in CASES if case in chosen]
        good = good and all(results)
    return 0 if good else 1


sys.exit(main())

"""A rank that speaks perf/compare's protocol and only pretends: pretender.py BEHAVIOUR FOLDER RANK.

Behaviours: steady (every operation takes 1000 ns), dies (at the twelfth timing, a turn after the estimates), silent (from the twelfth timing on), stubborn
(never says hello), quitter (ends without a word and with status 0), mumbler (connects and says nothing), babbler (says what is no
greeting), lacking (can do nothing), wrong (its data is). Every timing is noted in FOLDER/../order.
"""
import json
import os
import socket
import sys
import time

BEHAVIOUR, FOLDER, RANK = sys.argv[1], sys.argv[2], int(sys.argv[3])


def answer(command, timings):
    words = dict(word.split("=") for word in command.split()[1:])
    verb = command.split()[0]
    if verb == "start":
        return {"ok": True, "ns": 5e6, "version": "pretended"}
    if verb == "case" and BEHAVIOUR == "lacking":
        return {"lacks": "it can do nothing"}
    if verb == "check":
        wrong = 3 if BEHAVIOUR == "wrong" and RANK == 0 else 0
        return {"ok": True, "wrong": wrong, "sentence": "element 7 is 1" if wrong else "", "choice": ""}
    if verb == "time":
        if timings >= 12 and BEHAVIOUR == "dies":
            print("something went badly wrong", flush=True)
            os._exit(7)
        if timings >= 12 and BEHAVIOUR == "silent":
            time.sleep(600)
        if RANK == 0:
            with open(os.path.join(FOLDER, "..", "order"), "a") as order:
                order.write(os.path.basename(FOLDER) + "\n")
        batch = int(words["batch"])
        return {"ok": True, "ns": [batch * 1000 + RANK] * int(words.get("groups", 1))}
    return {"ok": True}


def main():
    if BEHAVIOUR == "stubborn":
        time.sleep(600)
    line = socket.socket(socket.AF_UNIX)
    if BEHAVIOUR == "quitter":
        return
    line.connect(os.path.join(FOLDER, "control"))
    if BEHAVIOUR == "mumbler":
        time.sleep(600)
    if BEHAVIOUR == "babbler":
        line.sendall(b"hello there\n")
        time.sleep(600)
    line.sendall(json.dumps({"rank": RANK, "pid": os.getpid()}).encode() + b"\n")
    timings = 0
    for command in line.makefile():
        if command.strip() == "quit":
            return
        timings += command.startswith("time")
        line.sendall(json.dumps(answer(command.strip(), timings)).encode() + b"\n")


main()

"""One run: who takes part, what was found, and how it ends."""
import itertools
import json
import os
import re
import sys
import tempfile

from . import contenders, networks, options, output, report, results, rounds, startup_and_idle, targets
from .cases import FRESH_ROOM, Setting, cases_of
from .processes import Died, Folder, Ranks
from .formatting import GOOD, WRONG_DATA, Refusal, size_text, worse


class Run:
    def __init__(self, given, goal=None):
        """given: options.read's; goal: what the result is judged by, a name in targets.GOALS."""
        self.given, self.goal = given, goal
        self.allowed = sorted(os.sched_getaffinity(0))
        self.cpus = self.allowed if given.bind == "core" else []
        self.effort = rounds.Effort(given.rounds, given.batch_time / 1e3, given.case_time, given.check)
        self.about = {**report.machine(self.allowed), "command": " ".join(sys.argv[1:]), "contenders": {}}
        self.records, self.status, self.seed = [], GOOD, 1
        self.fallen, self.died_of = [], set()
        self.builds = options.builds_of(given)
        several = len(self.builds) > 1
        self.ours = [contenders.Tutti(b, self.builds[0], m, several, given.tutti) for b in self.builds for m in given.memory]
        if given.measure == "init":
            self.ours.append(contenders.Threads(self.builds[0]))
        self.peers = self.find_peers()
        self.limits = [contenders.Limit(self.builds[0], kind) for kind in contenders.LIMITS] if given.measure == "time" else []
        if given.measure == "time":
            self.make_sure_of_memory()
        for contender in (*self.ours, *self.peers, *self.limits):
            contender.prepare()

    def make_sure_of_memory(self):
        """Memory is had when it is first written to: without a look beforehand the system would kill a rank in the middle."""
        given, free = self.given, report.available_memory()
        copies = sum(1 for limit in self.limits if limit.kind != "hop")
        each = 2 * (max(given.sizes) + (FRESH_ROOM if "fresh" in given.inputs else 0)) * max(given.ranks)
        need = each * (len(self.ours) + len(self.peers) + copies)
        if free is not None and need > free:
            raise Refusal(f"buffers of {size_text(max(given.sizes))} for {max(given.ranks)} ranks of every contender take "
                          f"{need >> 20} MiB, and {free >> 20} MiB are free; lower -e or --ranks, or name fewer --peers")

    def find_peers(self):
        found = []
        for name in self.given.wanted:
            peer = contenders.ALL_PEERS[name](self.builds[0], os.path.join(self.builds[0].folder, "peers"))
            why = peer.why_not()
            if not why:
                found.append(peer)
                continue
            self.about["contenders"][name] = {"missing": why}
            if name in self.given.named:
                raise Refusal(f"--peers names {name}, but it is {why}; perf/compare --install-peers installs it")
        return found

    def progress(self, text):
        if sys.stderr.isatty() and not self.given.quiet:
            sys.stderr.write("\r\033[K" + text[:160])
            sys.stderr.flush()

    def lose(self, contender, record, death):
        """Notes what a contender died of; ours decides on the exit status."""
        record["failed"] = str(death)
        self.progress("")
        output.complain(f"perf/compare: {death}")
        if contender in self.ours:
            self.status = worse(self.status, death.status)

    def about_of(self, contender):
        return {} if contender in self.limits else self.about["contenders"].setdefault(contender.name, {})

    def place(self, setting, wire, folder):
        return contenders.Place(setting.ranks, setting.transport, self.cpus, folder, wire.networks, wire.addresses)

    def launch(self, contender, setting, wire, running):
        """Starts one contender, into `running`; where it cannot, it is left out, with a note."""
        own = tempfile.mkdtemp(dir=self.folder)
        place, note = self.place(setting, wire, own), self.about_of(contender)
        lacks = contender.lacks(place)
        if lacks:
            note.setdefault("settings", lacks)
            return
        launch = contender.launch(place)
        self.progress(f"starting {contender.name} with {setting.ranks} ranks")
        try:
            running[contender] = Ranks(contender.name, launch.commands, {**os.environ, **launch.environment}, setting.ranks, own,
                                       self.given.deadline)
            started = running[contender].ask("start")
        except Died as death:
            if contender in running:
                running.pop(contender).kill()
            self.lose(contender, note, death)
            return
        note.update(version=started[0]["version"])
        note.setdefault("settings_by_setting", {})[f"{setting.ranks} ranks, {setting.transport}"] = launch.settings
        note["settings"] = " | ".join(dict.fromkeys(note["settings_by_setting"].values()))

    def ready(self, setting, case, running):
        """Trials that are ready for a case, in order, and {trial: contender} of all."""
        ready, known = [], {}
        for contender, ranks in list(running.items()):
            words = contender.words(case, setting.ranks) if contender in self.limits else case.words(setting.ranks)
            if words is None:
                continue
            trial = rounds.Trial(contender.name, ranks, checked=contender not in self.limits)
            known[trial] = contender
            if (contender, case.collective, case.type) in self.died_of:
                trial.record["lacks"] = "it died of this before"
                continue
            try:
                if trial.ready(words, self.seed, self.effort, case, case.slots(setting.ranks)):
                    ready.append(trial)
            except Died as death:
                self.drop(trial, known, running, death, case)
        return ready, known

    def drop(self, trial, known, running, death, case):
        """A contender died in its turn: it is ended, and the others go on without it."""
        self.lose(known[trial], trial.record, death)
        running.pop(known[trial]).kill()
        self.fallen.append(known[trial])
        self.died_of.add((known[trial], case.collective, case.type))

    def revive(self, running, setting, wire):
        """Peers that died are started again; they sit out what they died of (see Run.ready)."""
        for contender in self.fallen:
            if contender in self.peers:
                self.launch(contender, setting, wire, running)
        self.fallen = []

    def measure(self, setting, case, running):
        self.progress(f"{case.collective} {case.type}, {case.division}, of {size_text(case.real_bytes(setting.ranks))}, {setting.ranks} ranks, "
                      f"{setting.transport}, inputs {case.inputs}")
        self.seed += 2
        ready, known = self.ready(setting, case, running)
        rounds.interleave(ready, self.effort, lambda trial, death: self.drop(trial, known, running, death, case))
        for trial in ready:
            try:
                trial.end(self.seed + 1, case)
            except Died as death:
                self.drop(trial, known, running, death, case)
        contenders = {t.name: t.record for t, c in known.items() if c not in self.limits}
        limits = {c.kind: t.record for t, c in known.items() if c in self.limits and "median_us" in t.record}
        record = results.line(setting, case, contenders, limits, [p.name for p in self.peers], [o.name for o in self.ours])
        if any(contenders.get(o.name, {}).get("wrong") for o in self.ours):
            self.status = worse(self.status, WRONG_DATA)
        self.add(record)

    def add(self, record):
        self.records.append(record)
        if self.given.json == "-":
            output.say(json.dumps(record))

    def settings(self):
        given = self.given
        return [Setting(*words) for words in itertools.product(given.ranks, given.transports, given.networks)]

    def run(self):
        how = {"time": self.time_all, "idle": self.wait_all, "init": self.join_all}[self.given.measure]
        for setting in self.settings():
            with networks.Wire(setting.network) as wire, startup_and_idle.Strangers(self.given.strangers, self.allowed):
                how(setting, wire)
        self.progress("")

    def with_everyone(self, setting, wire, act):
        """Starts everyone, lets `act` use them, and ends them, whatever happens."""
        running = {}
        with Folder() as self.folder:
            try:
                for contender in (*self.ours, *self.peers, *self.limits):
                    self.launch(contender, setting, wire, running)
                act(running)
                for ranks in running.values():
                    ranks.quit()
            finally:
                for ranks in running.values():
                    ranks.kill()

    def time_all(self, setting, wire):
        given = self.given

        def act(running):
            for case in cases_of(given.collectives, given.types, given.ops, given.inputs, given.sizes, given.in_place,
                                 given.offset, given.divisions):
                if not any(o in running for o in self.ours):
                    return
                self.measure(setting, case, running)
                self.revive(running, setting, wire)

        self.with_everyone(setting, wire, act)

    def wait_all(self, setting, wire):
        def act(running):
            contenders = {}
            for contender, ranks in list(running.items()):
                self.progress(f"{contender.name} waits for a late peer")
                try:
                    contenders[contender.name] = startup_and_idle.wait_for_late(ranks, self.given.late)
                except Died as death:
                    contenders[contender.name] = {}
                    self.lose(contender, contenders[contender.name], death)
            self.add({"measure": "idle", "ranks": setting.ranks, "transport": setting.transport, "contenders": contenders})

        self.with_everyone(setting, wire, act)

    def join_all(self, setting, wire):
        times, failed = {}, {}
        for _ in range(self.given.rounds):
            for contender in (*self.ours, *self.peers):
                if contender.name in failed or contender.lacks(self.place(setting, wire, "")):
                    continue
                self.progress(f"{contender.name} joins {setting.ranks} ranks")
                with Folder() as folder:
                    try:
                        took, note = startup_and_idle.join_once(contender, self.place(setting, wire, folder), self.given.deadline)
                    except Died as death:
                        failed[contender.name] = {}
                        self.lose(contender, failed[contender.name], death)
                        continue
                self.about_of(contender).update(note)
                times.setdefault(contender.name, []).append(took)
        contenders = {**{name: startup_and_idle.joins(taken) for name, taken in times.items()}, **failed}
        self.add({"measure": "init", "ranks": setting.ranks, "transport": setting.transport, "contenders": contenders})

    def verdicts(self):
        return targets.judge(targets.GOALS[self.goal], self.records) if self.goal else []

    def text(self):
        names = [c.name for c in (*self.ours, *self.peers)]
        goal, verdicts = targets.GOALS.get(self.goal), self.verdicts()
        said = report.notes(self.records)
        parts = [f"{self.given.title}: {goal.title}" if goal else self.given.title, report.heading(self.about),
                 report.tables(self.records, names), report.occasion_tables(self.records),
                 "" if self.peers else "No peer took part: Tutti beside the machine's limits alone.", "\n".join(said)]
        if verdicts:
            met = sum(v.met for v in verdicts)
            parts.append("\n".join([f"Goal {self.goal}: met in {met} of {len(verdicts)}.", *(v.text() for v in verdicts if not v.met)]))
        return "\n\n".join(part for part in parts if part)

    def file_name(self):
        # The family, as hypervisors give processors of several generations one name.
        kind = f"{self.about['processor']} {self.about['family']}"
        words = [self.about["date"][:10], kind, self.given.title or "compare"]
        return re.sub(r"[^a-z0-9.-]+", "-", "-".join(words).lower()).strip("-")

    def write_json(self):
        if self.given.json and self.given.json != "-":
            with output.written(f"--json {self.given.json}"), open(self.given.json, "a" if self.goal else "w") as file:
                file.writelines(json.dumps(record) + "\n" for record in self.records)

    def save(self):
        if self.given.output:
            names = [c.name for c in (*self.ours, *self.peers)]
            asked = targets.GOALS[self.goal].ratio if self.goal else []
            with output.written(f"--output {self.given.output}"):
                report.save(self.given.output, self.file_name(), self.about, self.records, self.text(), names, asked)

    def show(self):
        if not self.given.quiet and self.given.json != "-":
            output.say(self.text())

    def tell(self):
        """Prints and writes what was found so far, each whatever becomes of the others; stdout last, whose reader may be gone."""
        self.progress("")
        refusals = []
        for way in (self.write_json, self.save, self.show) if self.records else ():
            try:
                way()
            except Refusal as refusal:
                refusals.append(refusal)
        if refusals:
            raise refusals[0]

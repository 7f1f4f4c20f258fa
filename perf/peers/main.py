"""perf/compare: reads what is wanted, starts everyone, lets them take turns, and tells."""
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile

from . import catalogue, options, report, results, rounds
from .cases import Case, Setting
from .processes import Died, Ranks, adopt_orphans, end_all
from .words import FAILED, GOOD, LOST, WRONG_DATA, Refusal, size_text


class Run:
    """One run: who takes part, what was found, and how it ends."""

    def __init__(self, given):
        self.given = given
        self.cpus = sorted(os.sched_getaffinity(0)) if given.bind == "core" else []
        self.effort = rounds.Effort(given.rounds, given.batch_time / 1e3, given.case_time, given.check)
        self.about = report.machine(sorted(os.sched_getaffinity(0)))
        self.about["command"] = " ".join(sys.argv[1:])
        self.about["contenders"] = {}
        self.records, self.status, self.seed = [], GOOD, 1
        self.builds = options.builds_of(given)
        several = len(self.builds) > 1
        self.ours = [catalogue.Tutti(b, m, several, given.tutti) for b in self.builds for m in given.memory]
        self.peers = self.find_peers()
        self.limits = [catalogue.Limit(self.builds[0], kind) for kind in catalogue.LIMITS]
        for contender in (*self.ours, *self.peers, *self.limits):
            contender.prepare()

    def find_peers(self):
        found = []
        for name in self.given.wanted:
            peer = catalogue.ALL_PEERS[name](self.builds[0], os.path.join(self.builds[0].folder, "peers"))
            why = peer.why_not()
            if why:
                self.about["contenders"][name] = {"missing": why}
                if self.given.peers != "all" and name in self.given.peers.split(","):
                    raise Refusal(f"--peers names {name}, but it is {why}; perf/compare --install-peers installs it")
            else:
                found.append(peer)
        return found

    def progress(self, text):
        if sys.stderr.isatty() and not self.given.quiet:
            sys.stderr.write("\r\033[K" + text[:160])
            sys.stderr.flush()

    def lose(self, contender, record, death):
        record["failed"] = str(death)
        if contender in self.ours:
            self.status = max(self.status, death.status, key=(GOOD, FAILED, LOST, WRONG_DATA).index)

    def begin(self, setting, folder):
        """{contender: Ranks} for a setting; who cannot is left out, with a note."""
        running = {}
        try:
            for number, contender in enumerate((*self.ours, *self.peers, *self.limits)):
                own = os.path.join(folder, str(number))
                os.mkdir(own, 0o700)
                place = catalogue.Place(setting.ranks, setting.transport, self.cpus, own)
                note = {} if contender in self.limits else self.about["contenders"].setdefault(contender.name, {})
                lacks = contender.lacks(place)
                if lacks:
                    note.setdefault("settings", lacks)
                    continue
                launch = contender.launch(place)
                self.progress(f"starting {contender.name} with {setting.ranks} ranks")
                try:
                    ranks = Ranks(contender.name, launch.commands, {**os.environ, **launch.environment}, setting.ranks, own,
                                  self.given.deadline)
                    running[contender] = ranks
                    started = ranks.ask("start")
                except Died as death:
                    if contender in running:
                        running.pop(contender).kill()
                    self.lose(contender, note, death)
                    print(f"perf/compare: {death}", file=sys.stderr)
                    continue
                note.update(version=started[0]["version"], settings=launch.settings)
                note.setdefault("init_ms", {})[f"{setting.ranks} {setting.transport}"] = max(r["ns"] for r in started) / 1e6
        except BaseException:
            for ranks in running.values():
                ranks.kill()
            raise
        return running

    def trials(self, setting, case, running):
        """Who is ready for a case, in order, and everyone's record."""
        ready, known = [], {}
        for contender, ranks in running.items():
            limit = contender in self.limits
            words = contender.words(case, setting.ranks) if limit else case.words(setting.ranks)
            if words is None:
                continue
            trial = rounds.Trial(contender.name, ranks)
            known[trial] = contender
            try:
                if trial.ready(words, self.seed, self.effort, case, case.slots(setting.ranks)):
                    ready.append(trial)
            except Died as death:
                self.drop(trial, contender, running, death)
        return ready, known

    def drop(self, trial, contender, running, death):
        trial.record = {"failed": str(death), **{k: v for k, v in trial.record.items() if k == "wrong"}}
        self.lose(contender, trial.record, death)
        print(f"perf/compare: {death}", file=sys.stderr)
        running[contender].kill()

    def measure(self, setting, case, running):
        self.progress(f"{case.collective} {case.type} of {size_text(case.real_bytes(setting.ranks))}, {setting.ranks} ranks")
        self.seed += 2
        ready, known = self.trials(setting, case, running)
        for contender in [c for c, r in running.items() if not r.lines]:
            del running[contender]
        rounds.interleave(ready, self.effort, lambda trial, death: self.drop(trial, known[trial], running, death))
        for trial in ready:
            try:
                trial.end(self.seed + 1, self.effort)
            except Died as death:
                self.drop(trial, known[trial], running, death)
        for contender in [c for c, r in running.items() if not r.lines]:
            del running[contender]
        contenders = {t.name: t.record for t, c in known.items() if c not in self.limits}
        limits = {c.kind: t.record for t, c in known.items() if c in self.limits and "median_us" in t.record}
        record = results.line(setting, case, contenders, limits, [p.name for p in self.peers], [o.name for o in self.ours])
        if any(contenders.get(o.name, {}).get("wrong") for o in self.ours):
            self.status = WRONG_DATA
        self.records.append(record)
        if self.given.json == "-" and not self.given.quiet:
            print(json.dumps(record), flush=True)

    def run(self):
        given = self.given
        for ranks, transport in itertools.product(given.ranks, given.transports):
            setting = Setting(ranks, transport)
            folder = tempfile.mkdtemp(prefix="tutti-compare-")
            running = {}
            try:
                running = self.begin(setting, folder)
                for c, d, o, i, b in itertools.product(given.collectives, given.types, given.ops, given.inputs, given.sizes):
                    if not any(o in running for o in self.ours):
                        break
                    self.measure(setting, Case(c, b, d, o, i, given.in_place), running)
                for contender in running.values():
                    contender.quit()
            finally:
                for contender in running.values():
                    contender.kill()
                shutil.rmtree(folder, ignore_errors=True)
        self.progress("")

    def text(self):
        names = [c.name for c in (*self.ours, *self.peers)]
        parts = [self.given.title] if self.given.title else []
        parts += [report.heading(self.about), report.tables(self.records, names)]
        if not self.peers:
            parts.append("No peer took part: Tutti beside the machine's limits alone.")
        said = report.notes(self.records)
        return "\n\n".join(parts + (["\n".join(said)] if said else []))

    def file_name(self):
        words = [self.about["date"][:10], self.about["processor"], self.given.title or "compare"]
        return re.sub(r"[^a-z0-9.-]+", "-", "-".join(words).lower()).strip("-")

    def tell(self):
        if not self.records:
            return
        text = self.text()
        if not self.given.quiet and self.given.json != "-":
            print(text, flush=True)
        if self.given.json and self.given.json != "-":
            with open(self.given.json, "w") as file:
                file.writelines(json.dumps(record) + "\n" for record in self.records)
        if self.given.output:
            report.save(self.given.output, self.file_name(), self.about, self.records, text)


def stop(number, frame):
    raise KeyboardInterrupt


def compare(arguments):
    given = options.read(arguments)
    if given.version:
        print("perf/compare", report.commit())
        return GOOD
    run = Run(given)
    try:
        run.run()
    finally:
        run.tell()
    return run.status


def main(arguments):
    adopt_orphans()
    signal.signal(signal.SIGTERM, stop)
    try:
        return compare(arguments)
    except Refusal as refusal:
        print(f"perf/compare: {refusal}", file=sys.stderr)
        return refusal.status
    except KeyboardInterrupt:
        print("perf/compare: interrupted", file=sys.stderr)
        return 130
    finally:
        end_all()

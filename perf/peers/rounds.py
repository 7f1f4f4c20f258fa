"""One case: everybody made ready, checked, and then timed in turns, A B C A B C."""
import time
from dataclasses import dataclass

from . import results
from .processes import Died

MOST_OPERATIONS = 20000
LEAST_ROUNDS = 5
CHECKED_TWICE = 16 << 20  # bytes
TRIES = 3
LONG_NS = 100e6  # nothing takes a core away for so long
ENOUGH_NS = 1e6  # a first estimate is good once it took so long


@dataclass
class Effort:
    """How much is measured: rounds at most, seconds of a batch, seconds that a case's rounds may take."""
    rounds: int = 15
    batch_seconds: float = 0.002
    case_seconds: float = 20.0
    check: bool = True


@dataclass
class Plan:
    """What one contender does in one round."""
    batch: int
    groups: int
    estimate_ns: float
    fresh: bool

    def words(self):
        warm = max(1, min(self.batch // 8, 1000))
        return f"time warm={warm} batch={self.batch} groups={self.groups} fresh={int(self.fresh)}"

    def seconds(self):
        return self.estimate_ns * (self.batch * self.groups + max(1, self.batch // 8)) / 1e9


def slowest(replies):
    """Nanoseconds of the slowest rank, summed over the groups."""
    return sum(max(times) for times in zip(*(reply["ns"] for reply in replies)))


def estimate(contender):
    """Nanoseconds of one operation, by batches that grow until they are long enough to tell.

    What seems long enough is tried again: a core that was taken away for a moment must not make every batch too short.
    """
    batch = 1
    while True:
        took = slowest(contender.ask(f"time warm=1 batch={batch}"))
        for _ in range(TRIES):
            if took < ENOUGH_NS or took > LONG_NS:
                break
            took = min(took, slowest(contender.ask(f"time warm=1 batch={batch}")))
        if took >= ENOUGH_NS or batch >= MOST_OPERATIONS:
            return max(1.0, took / batch)
        batch = min(MOST_OPERATIONS, batch * 8)


def plan(contender, case, slots, batch_seconds):
    """The same rule for everyone: as many operations as fill the batch's time, at least one."""
    one = estimate(contender)
    wanted = max(1, min(MOST_OPERATIONS, round(batch_seconds * 1e9 / one)))
    if case.inputs != "fresh":
        return Plan(wanted, 1, one, False)
    batch = min(wanted, slots)
    return Plan(batch, max(1, min(16, wanted // batch)), one, True)


class Trial:
    """A contender in one case."""

    def __init__(self, name, ranks, checked=True):
        self.disturbed = 0
        self.name, self.ranks, self.record, self.times, self.plan, self.checked = name, ranks, {}, [], None, checked

    def ready(self, words, seed, effort, case, slots):
        """False where it takes no part; the record then says why."""
        self.checked = self.checked and effort.check
        replies = self.ranks.ask(words + (" fill=0" if self.checked and slots == 1 else ""))
        if isinstance(replies, str):
            self.record["lacks"] = replies
            return False
        if all("behind_page" in reply for reply in replies):
            self.record["behind_page"] = [reply["behind_page"] for reply in replies]
        if self.checked:
            self.check(seed)
        self.plan = plan(self.ranks, case, slots, effort.batch_seconds)
        return True

    def check(self, seed):
        replies = self.ranks.ask(f"check seed={seed}")
        self.record["wrong"] = self.record.get("wrong", 0) + sum(reply["wrong"] for reply in replies)
        if self.record["wrong"]:
            self.record["sentence"] = next(r["sentence"] for r in replies if r["sentence"])
        if replies[0]["choice"]:
            self.record["choice"] = replies[0]["choice"]

    def round(self):
        replies = self.ranks.ask(self.plan.words())
        took = slowest(replies)
        self.disturbed += any(reply.get("preempted") for reply in replies)
        self.times.append(took / (self.plan.batch * self.plan.groups) / 1e3)

    def end(self, seed, case):
        """Large results are checked once: making and comparing them takes longer than all rounds."""
        if self.checked and case.bytes <= CHECKED_TWICE:
            self.check(seed)
        self.ranks.ask("drop")
        self.record.update(results.summary(self.times), batch=self.plan.batch, groups=self.plan.groups,
                           disturbed=self.disturbed / len(self.times),
                           times_us=[round(t, 4) for t in self.times])


def interleave(trials, effort, lose):
    """Turn and turn about. `lose` is told of a trial whose ranks died."""
    cost = sum(trial.plan.seconds() for trial in trials)
    least = min(LEAST_ROUNDS, effort.rounds)
    rounds = max(least, min(effort.rounds, int(effort.case_seconds / max(cost, 1e-9))))
    begin = time.monotonic()
    for done in range(rounds):
        if done >= least and time.monotonic() - begin > 1.5 * effort.case_seconds:
            return
        for trial in list(trials):
            try:
                trial.round()
            except Died as death:
                trials.remove(trial)
                lose(trial, death)

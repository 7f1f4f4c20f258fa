"""perf/compare: reads what is wanted, lets everyone take turns, and tells."""
import json
import signal
import sys

from . import install, options, report
from .processes import adopt_orphans, end_all
from .run import WORSE, Run
from .words import GOOD, Refusal


def carry_out(given, goal=None):
    run = Run(given, goal)
    try:
        run.run()
    finally:
        run.tell()
    return run.status


def compare(arguments):
    given = options.read(arguments)
    if given.version:
        print("perf/compare", report.commit())
        return GOOD
    if given.install_peers:
        return install.install(options.builds_of(given)[0])
    if not given.goals:
        return carry_out(given)
    return max((carry_out(options.for_goal(goal, arguments), goal) for goal in given.goals), key=WORSE.index)


def complain(arguments, sentence, status):
    """One sentence on stderr; with --json, whose reader looks at stdout, a JSON line too."""
    print(f"perf/compare: {sentence}", file=sys.stderr)
    if "--json" in arguments or "--json=-" in arguments:
        print(json.dumps({"error": sentence, "exit": status}), flush=True)
    return status


def stop(number, frame):
    raise KeyboardInterrupt


def main(arguments):
    adopt_orphans()
    signal.signal(signal.SIGTERM, stop)
    try:
        return compare(arguments)
    except Refusal as refusal:
        return complain(arguments, str(refusal), refusal.status)
    except KeyboardInterrupt:
        return complain(arguments, "interrupted; every contender was ended", 130)
    finally:
        end_all()

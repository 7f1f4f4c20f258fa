"""perf/compare: reads what is wanted, lets everyone take turns, and tells."""
import json
import signal
import sys

from . import install, options, report
from .processes import Folder, adopt_orphans, end_all
from .run import Run
from .words import GOOD, Refusal, worse


def carry_out(given, goal=None):
    """Runs and tells, whatever happens on the way. Returns the run."""
    run = Run(given, goal)
    try:
        run.run()
    finally:
        run.tell()
    return run


def pursue(wanted, arguments):
    """One goal after the other, and at the end a line on each. Returns the exit status."""
    status, lines = GOOD, []
    for goal in wanted:
        run = carry_out(options.for_goal(goal, arguments), goal)
        status = worse(status, run.status)
        verdicts = run.verdicts()
        lines.append(f"{goal}: met in {sum(v.met for v in verdicts)} of {len(verdicts)}")
        quiet = run.given.quiet or run.given.json == "-"
        if len(wanted) > 1 and not quiet:
            print("\n" + ("=" * 100) + "\n", flush=True)
    if len(wanted) > 1 and not quiet:
        print("\n".join(lines), flush=True)
    return status


def compare(arguments):
    given = options.read(arguments)
    if given.version:
        print("perf/compare", report.commit())
        return GOOD
    if given.install_peers:
        return install.install(options.builds_of(given)[0])
    if not given.goals:
        return carry_out(given).status
    return pursue(given.goals, arguments)


def complain(arguments, sentence, status):
    """One sentence on stderr; with --json, whose reader looks at stdout, a JSON line too."""
    print(f"perf/compare: {sentence}", file=sys.stderr)
    if "--json" in arguments or "--json=-" in arguments:
        print(json.dumps({"error": sentence, "exit": status}), flush=True)
    return status


def stop(number, frame):
    """Once: a second signal, which `timeout` sends with the first, would end the clearing up."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(arguments):
    adopt_orphans()
    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) != signal.SIG_IGN:  # as scripts start what runs in the background
            signal.signal(each, stop)
    try:
        return compare(arguments)
    except Refusal as refusal:
        return complain(arguments, str(refusal), refusal.status)
    except KeyboardInterrupt:
        return complain(arguments, "interrupted; every contender was ended", 130)
    finally:
        end_all()
        Folder.remove_all()

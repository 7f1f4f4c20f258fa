"""perf/compare: reads what is wanted, lets everyone take turns, and tells."""
import contextlib
import json

from . import install, options, output, program, report, signals
from .run import Run
from .formatting import GOOD, Refusal, worse


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
            output.say("\n" + ("=" * 100) + "\n")
    if len(wanted) > 1 and not quiet:
        output.say("\n".join(lines))
    return status


def compare(arguments):
    given = options.read(arguments)
    if given.version:
        output.say(f"perf/compare {report.commit()}")
        return GOOD
    if given.install_peers:
        return install.install(options.builds_of(given)[0])
    if not given.goals:
        return carry_out(given).status
    return pursue(given.goals, arguments)


def complain(arguments, sentence, status):
    """One sentence on stderr; with --json, whose reader looks at stdout, a JSON line too."""
    output.complain(f"perf/compare: {sentence}")
    if "--json" in arguments or "--json=-" in arguments:
        with contextlib.suppress(Refusal, signals.Ended):  # stdout itself may be what is complained of
            output.say(json.dumps({"error": sentence, "exit": status}))
    return status


def main(arguments):
    return program.run(lambda: compare(arguments), lambda sentence, status: complain(arguments, sentence, status))

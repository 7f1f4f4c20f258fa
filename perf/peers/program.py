"""A script's whole life: what it does, what is said of its failure, and that nothing is left of it, however it ends."""
from . import output, signals
from .networks import Spaces
from .processes import Folder, adopt_orphans, end_all
from .formatting import FAILED, Refusal


def clear_away():
    """Processes first: one that was just begun when a signal came might still make something."""
    end_all()
    Spaces.remove_all()
    Folder.remove_all()


def attempt(work, complain, caught):
    """Returns the exit status; caught.number is the signal by which to end instead."""
    try:
        try:
            caught.begin()
            return work()
        finally:
            caught.hold()
    except Refusal as refusal:
        return complain(str(refusal), refusal.status)
    except OSError as error:
        return complain(str(error), FAILED)
    except signals.Ended as ended:
        caught.number = ended.number
        if ended.number in signals.ENDING:  # else it was SIGPIPE: nobody is there to be told
            complain("interrupted; what it had started is ended and removed", signals.SHELLS_OFFSET + ended.number)
        return FAILED


def run(work, complain):
    """work: returns the exit status, or raises Refusal. complain(sentence, status): tells, and returns the status. Returns what the
    process is to exit with, or ends it by the signal that came."""
    output.take_descriptors()
    adopt_orphans()
    with signals.Caught() as caught:
        try:
            status = attempt(work, complain, caught)
        finally:
            clear_away()
    if caught.number is not None:
        signals.end_by(caught.number)
    return status

"""Where words go: stdout, which may take no more, stderr, and files that were asked for."""
import contextlib
import os
import signal
import sys

from .signals import Ended
from .formatting import FAILED, Refusal


def take_descriptors():
    """Takes those of 0 to 2 that are closed: a socket or file of ours would become our stdout, or that of a rank."""
    while (taken := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(taken)


def say(text):
    """A line on stdout, at once. A pipe whose reader has gone ends the program as it ends cat or grep, by SIGPIPE."""
    write(text + "\n")


def write(text=""):
    """With no text it sends off what others, such as argparse, have said, and finds out whether there is a stdout."""
    if sys.stdout is None:
        raise Refusal("stdout cannot be written: it is closed; send it elsewhere", FAILED)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # what is left in the buffer, which Python would try to write again at its end
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise Ended(signal.SIGPIPE) from None
        raise Refusal(f"stdout cannot be written: {error.strerror}; free space there, or send it elsewhere", FAILED) from None


def complain(text):
    """A line on stderr, where that takes any."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def written(what):
    """Turns what goes wrong while `what`, an option and its file, is written into a sentence."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"{what} cannot be written: {error.strerror}; name one that can be", FAILED) from None

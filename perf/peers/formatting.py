"""What is refused, and how sizes and times are read and written."""
import re
from fractions import Fraction

GOOD, FAILED, WRONG_USE, WRONG_DATA, LOST = 0, 1, 2, 3, 4
WORSE = (GOOD, LOST, FAILED, WRONG_USE, WRONG_DATA)  # as the programs have it: a lost peer says least of what went wrong


def worse(a, b):
    """The exit status that says more."""
    return max(a, b, key=WORSE.index)


class Refusal(Exception):
    """One sentence for stderr, and the exit status that goes with it."""

    def __init__(self, sentence, status=WRONG_USE):
        super().__init__(sentence)
        self.status = status


SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text):
    """Bytes of "8", "4K", "1M", "0.5G" (also 4KiB, 4k), rounded down; None for anything else."""
    match = re.fullmatch(r"(\d+|\d+\.\d*(?=[KMG]))([KMG]?)(?:i?B)?", text.strip(), re.I)
    return int(Fraction(match[1].rstrip(".")) * SUFFIXES[match[2].upper()]) if match else None


def size_text(size):
    """The shortest exact form: 4096 is "4 KiB", 4100 is "4100 B"."""
    for suffix in ("G", "M", "K"):
        if size >= SUFFIXES[suffix] and size % SUFFIXES[suffix] == 0:
            return f"{size // SUFFIXES[suffix]} {suffix}iB"
    return f"{size} B"


def significant(value, digits=3):
    """A number with so many significant digits and no exponent: 0.1234 is "0.123", 1234.5 is "1230"."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


def time_text(us):
    """Microseconds with a unit that suits them."""
    if us < 1:
        return f"{us * 1e3:.0f} ns"
    if us < 1000:
        return f"{significant(us)} us"
    return f"{significant(us / 1e3)} ms" if us < 1e6 else f"{significant(us / 1e6)} s"

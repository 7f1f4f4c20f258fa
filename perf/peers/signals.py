"""The signals that end a program: first what it made is cleared away, then they end it, so that whoever started it sees which."""
import os
import signal

from .processes import never_dump

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
SHELLS_OFFSET = 128  # a shell's exit code for a command that a signal ended


class Ended(BaseException):
    """A signal wants the program's end. No Exception, lest somebody on the way takes it for a failure of its own."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Caught:
    """Within the `with` ENDING are remembered, and from begin() to hold() the first of them raises Ended; later ones are let pass:
    a second, which `timeout` sends with the first, would end the clearing away. One that was ignored before (nohup; what scripts
    start in the background) stays so."""

    def __enter__(self):
        self.number, self.raises = None, False
        handlers = {each: signal.getsignal(each) for each in ENDING}
        self.before = {each: handler for each, handler in handlers.items() if handler != signal.SIG_IGN}
        for each in self.before:
            signal.signal(each, self._come)
        return self

    def _come(self, number, _):
        if self.number is None:
            self.number = number
            if self.raises:
                raise Ended(number)

    def begin(self):
        self.raises = True
        if self.number is not None:
            raise Ended(self.number)

    def hold(self):
        """From here on nothing is raised: not even where this itself is interrupted, as that was the first."""
        self.raises = False

    def __exit__(self, *_):
        for each, handler in self.before.items():
            signal.signal(each, handler)


def end_by(number):
    """Ends this process by the signal's default action, and without a core: nothing went wrong here."""
    never_dump()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(SHELLS_OFFSET + number)  # where the signal is blocked

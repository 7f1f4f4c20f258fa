"""A contender's ranks: started, spoken to one command at a time, ended for certain."""
import ctypes
import json
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .formatting import FAILED, LOST, Refusal

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans():
    """Processes whose launcher dies become our children, so that none escapes."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def never_dump():
    """Whatever ends this process leaves no core."""
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class Folder:
    """A private folder for contenders' sockets and logs, removed at the end of a `with`: in /tmp where the usual place's path is too
    long for a socket's name."""
    left = set()  # those that are still there

    def __enter__(self):
        usual = tempfile.gettempdir()
        self.path = os.path.join(usual if len(os.fsencode(usual)) <= 60 else "/tmp", f"tutti-compare-{secrets.token_hex(4)}")
        Folder.left.add(self.path)  # first: a signal may come between
        os.mkdir(self.path, 0o700)
        return self.path

    def __exit__(self, *_):
        self.remove(self.path)

    @staticmethod
    def remove(path):
        """A launcher that dies may still write there: then it is removed once everybody has ended (remove_all)."""
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path):
            Folder.left.discard(path)

    @staticmethod
    def remove_all():
        for path in list(Folder.left):
            Folder.remove(path)


class Died(Exception):
    """A contender is gone or silent; the sentence says which and what it last said."""

    def __init__(self, sentence, status=FAILED):
        super().__init__(sentence)
        self.status = status


class Ranks:
    """The ranks of one contender. Between commands each blocks in read() on its own socket."""

    def __init__(self, name, commands, environment, ranks, folder, deadline):
        """commands: one per process to start (a launcher's one for all ranks, else one a rank)."""
        self.name, self.ranks, self.folder, self.deadline = name, ranks, folder, deadline
        self.launched, self.lines, self.pids, self.rests = [], {}, {}, {}
        self.log = os.path.join(folder, "log")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(os.path.join(folder, "control"))
            listener.listen(ranks)
            with open(self.log, "ab") as log:
                # A group to be killed, but no session of its own: the kernel may schedule sessions as groups, and then a
                # rank that yields would not hand its core to one of another session.
                for command in commands:
                    self.launched.append(subprocess.Popen(
                        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                        process_group=0, preexec_fn=die_with_parent))
            self._greet(listener)
        except OSError as error:
            self.kill()
            raise self._died(f"could not be started: {error}") from None
        except BaseException:
            self.kill()
            raise
        finally:
            listener.close()

    def _last_words(self):
        try:
            with open(self.log, errors="replace") as log:
                lines = [line.strip() for line in log if line.strip(" \n-=")]
        except OSError:
            lines = []
        return f"; it said: {' / '.join(lines[-4:])[:600]}" if lines else ""

    def _died(self, what, status=FAILED):
        return Died(f"{self.name} {what}{self._last_words()}", status)

    def _greet(self, listener):
        listener.settimeout(0.2)
        end = time.monotonic() + self.deadline
        while len(self.lines) < self.ranks:
            try:
                line, _ = listener.accept()
            except TimeoutError:
                ended = [p.poll() for p in self.launched]
                if any(status not in (None, 0) for status in ended) or None not in ended:
                    raise self._died("ended before its ranks had begun") from None
                if time.monotonic() > end:
                    raise self._died(f"did not begin within {self.deadline:g} s", LOST) from None
                continue
            hello = self._hello(line, end)
            self.lines[hello["rank"]], self.pids[hello["rank"]], self.rests[hello["rank"]] = line, hello["pid"], b""
        for line in self.lines.values():
            line.setblocking(False)

    def _hello(self, line, end):
        """A rank's first words; the line is closed where they do not come."""
        rest = b""
        try:
            while b"\n" not in rest:
                line.settimeout(max(0.001, end - time.monotonic()))
                more = line.recv(65536)
                if not more:
                    raise self._died("ended as its ranks began")
                rest += more
            hello = self._understood(rest)
            if not all(isinstance(hello.get(word), int) for word in ("rank", "pid")) or not 0 <= hello["rank"] < self.ranks:
                raise self._died(f"greeted with {rest[:80]!r}, which names no rank of {self.ranks}")
            return hello
        except TimeoutError:
            line.close()
            raise self._died(f"connected and said nothing within {self.deadline:g} s", LOST) from None
        except BaseException:
            line.close()
            raise

    def _understood(self, text):
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise self._died(f"said {text[:80]!r}, which is no reply")
        return said

    def send(self, command):
        for rank, line in self.lines.items():
            try:
                line.sendall(command.encode() + b"\n")
            except OSError:
                raise self._died(f"lost rank {rank}", LOST) from None

    def receive(self, deadline=None):
        """One reply of every rank, in rank order."""
        replies, limit = {}, deadline or self.deadline
        end = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            for rank, line in self.lines.items():
                selector.register(line, selectors.EVENT_READ, rank)
            while len(replies) < self.ranks:
                ready = selector.select(max(0, end - time.monotonic()))
                if not ready:
                    silent = sorted(set(self.lines) - set(replies))
                    raise self._died(f"did not answer within {limit:g} s (ranks {silent})", LOST)
                for key, _ in ready:
                    rank = key.data
                    try:
                        more = key.fileobj.recv(65536)
                    except OSError:
                        more = b""
                    if not more:
                        raise self._died(f"lost rank {rank}", LOST)
                    self.rests[rank] += more
                    if b"\n" in self.rests[rank]:
                        text, self.rests[rank] = self.rests[rank].split(b"\n", 1)
                        replies[rank] = self._understood(text)
                        selector.unregister(key.fileobj)
        return [replies[rank] for rank in sorted(replies)]

    def ask(self, command, deadline=None):
        """Replies of all ranks; a failing one raises Died with its sentence, a lacking one gives a string."""
        self.send(command)
        replies = self.receive(deadline)
        for rank, reply in enumerate(replies):
            if "error" in reply:
                raise self._died(f"failed on rank {rank}: {reply['error']}", reply.get("exit", FAILED))
        for reply in replies:
            if "lacks" in reply:
                return reply["lacks"]
        return replies

    def quit(self, patience=5):
        """Lets the ranks take their leave, then ends what is left."""
        try:
            self.send("quit")
            end = time.monotonic() + patience
            while any(p.poll() is None for p in self.launched) and time.monotonic() < end:
                time.sleep(0.01)
        except Died:
            pass
        self.kill()

    def _ask_to_end(self, patience=3):
        """SIGTERM first: a launcher then removes what its ranks had in shared memory."""
        for launched in self.launched:
            if launched.poll() is None:
                launched.terminate()
        end = time.monotonic() + patience
        while any(p.poll() is None for p in self.launched) and time.monotonic() < end:
            time.sleep(0.01)

    def kill(self):
        """Ends every process of this contender; does nothing a second time."""
        self._ask_to_end()
        for launched in self.launched:
            for how in (os.killpg, os.kill):
                try:
                    how(launched.pid, signal.SIGKILL)
                except OSError:
                    pass
        for pid in self.pids.values():
            if parent_of(pid) in {os.getpid(), *(p.pid for p in self.launched)}:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        for launched in self.launched:
            try:
                launched.wait(timeout=5)
            except subprocess.TimeoutExpired:
                pass  # in a system call that nothing ends: end_all has a last look
        for line in self.lines.values():
            line.close()
        self.lines = {}


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def descendants(of):
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            children.setdefault(parent_of(int(entry)), []).append(int(entry))
    found, look = [], [of]
    while look:
        more = children.get(look.pop(), [])
        found += more
        look += more
    return found


def end_all(patience=5):
    """No process of ours outlives us: whoever is still below this one is killed and awaited."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)


def cpu_seconds(pid):
    """CPU time of all threads of a process, to the nanosecond where the kernel tells it."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
                total += int(stat.read().split()[0])
        except (OSError, ValueError, IndexError) as error:
            raise Refusal(f"the CPU time of process {pid} cannot be read: {error}", FAILED) from None
    return total / 1e9

"""What a script of perf/ may have left behind, looked at from outside."""
import contextlib
import os
import shutil
import signal
import subprocess

SPACES = "/run/netns"


def spaces_of(pid):
    """The network namespaces that a process has made, by their names."""
    return [name for name in os.listdir(SPACES) if str(pid) in name.split("-")] if os.path.isdir(SPACES) else []


def spaces_can_be_made():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return False
    name = f"tutti-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return made


def mind_signals():
    """In a child: signals end it, though the tests themselves may run under nohup or in a script's background."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)


@contextlib.contextmanager
def started(command, folder):
    """A run whose temporary files go to `folder`; ended at the end, should a test fail."""
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           env={**os.environ, "TMPDIR": folder}, preexec_fn=mind_signals)
    try:
        yield run
    finally:
        run.kill()
        run.wait()
        run.stderr.close()

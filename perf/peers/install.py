"""--install-peers: Debian's packages for what Debian has, a virtual environment in the build folder for Intel MPI."""
import os
import shutil
import subprocess
import sys

from . import contenders
from .output import say
from .formatting import FAILED, GOOD, WRONG_USE, Refusal

DEBIAN = {"openmpi": ["openmpi-bin", "libopenmpi-dev"], "mpich": ["mpich", "libmpich-dev"], "gloo": ["libgloo-dev"],
          "torch": ["python3-torch"]}
PYPI = {"intelmpi": ["impi-rt", "impi-devel"]}


def run(command, what, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-1:]
        raise Refusal(f"{what} failed: {(last or ['no reason given'])[0]}", FAILED)


def with_debian(packages):
    if not shutil.which("apt-get"):
        raise Refusal("this system has no apt-get; install these yourself: " + " ".join(packages))
    if os.geteuid() != 0 and not shutil.which("sudo"):
        raise Refusal("installing needs root; as root run: apt-get install " + " ".join(packages))
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run([*prefix, "apt-get", "update", "-qq"], "apt-get update", environment)
    run([*prefix, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], "apt-get install", environment)


def with_pip(folder, packages):
    venv = os.path.join(folder, "venv")
    if not os.path.exists(os.path.join(venv, "bin", "pip")):
        run([sys.executable, "-m", "venv", venv], "making a virtual environment")
    run([os.path.join(venv, "bin", "pip"), "install", "-q", *packages], "pip install")


def install(build):
    """Installs what is missing and says what there is. One that cannot be had does not keep the others away."""
    folder, status = os.path.join(build.folder, "peers"), GOOD
    for name, kind in contenders.ALL_PEERS.items():
        failure = ""
        if kind(build, folder).why_not():
            say(f"{name}: installing {' '.join(DEBIAN.get(name, []) + PYPI.get(name, []))}")
            try:
                if name in DEBIAN:
                    with_debian(DEBIAN[name])
                else:
                    with_pip(folder, PYPI[name])
            except Refusal as refusal:
                failure, status = str(refusal), max(status, refusal.status if refusal.status != WRONG_USE else FAILED)
        why = kind(build, folder).why_not()
        say(f"{name}: {'there' if not why else why}{': ' + failure if failure else ''}")
    return status

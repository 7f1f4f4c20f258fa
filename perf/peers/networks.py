"""A wire of our own: two network namespaces with a veth pair between them, shaped or not, for ranks that talk over tcp."""
import os
import re
import shutil
import subprocess

from .formatting import FAILED, WRONG_USE, Refusal

MTU = 9000
HOST = "host"  # no namespaces: the loopback


def valid(name):
    """"host", "veth" (unshaped), or "veth:RATE" with a rate such as 1G, 10G or 500M, in bits per second."""
    return name == HOST or re.fullmatch(r"veth(:\d+[MG])?", name) is not None


def ip(*words, may_fail=False):
    # A process group of its own: Ctrl-C, which goes to all of ours, would else end it where it clears away.
    done = subprocess.run(words, capture_output=True, text=True, check=False, process_group=0)
    if done.returncode != 0 and not may_fail:
        raise Refusal(f"the network namespaces could not be set up ('{' '.join(words)}': {done.stderr.strip()}); they need root "
                      "and iproute2", FAILED)
    return done.stdout


class Spaces:
    """The network namespaces that this process has made."""
    made = set()  # by name, also those that are gone

    @staticmethod
    def add(name):
        Spaces.made.add(name)  # first: a signal may come between
        ip("ip", "netns", "add", name)
        ip("ip", "-n", name, "link", "set", "lo", "up")

    @staticmethod
    def remove(name):
        """May be interrupted: see remove_all."""
        if name in Spaces.made:
            ip("ip", "netns", "delete", name, may_fail=True)

    @staticmethod
    def remove_all():
        """Those that are still there, once no child is left that might make one."""
        for name in Spaces.made:
            if os.path.exists(os.path.join("/run/netns", name)):
                Spaces.remove(name)


class Wire:
    """Two namespaces, rank r in number r mod 2. A context manager: they are gone afterwards."""

    def __init__(self, name):
        self.name, self.networks, self.addresses = name, [], []

    def settings(self):
        if self.name == HOST:
            return ""
        rate = self.name.partition(":")[2]
        return f"veth pair between namespaces, MTU {MTU}, " + (f"htb {rate.lower()}bit both ways" if rate else "not shaped")

    def __enter__(self):
        if self.name == HOST:
            return self
        for tool in ("ip", "tc"):
            if not shutil.which(tool):
                raise Refusal(f"--network {self.name} needs {tool}; install iproute2", WRONG_USE)
        self.networks = [f"tutti-compare-{os.getpid()}-{side}" for side in "ab"]
        self.addresses = ["10.213.7.1", "10.213.7.2"]
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        a, b = self.networks
        for network in self.networks:
            Spaces.add(network)
        ip("ip", "-n", a, "link", "add", "wire", "mtu", str(MTU), "type", "veth", "peer", "name", "wire", "mtu", str(MTU), "netns", b)
        rate = self.name.partition(":")[2].lower()
        for network, address in zip(self.networks, self.addresses):
            ip("ip", "-n", network, "address", "add", address + "/24", "dev", "wire")
            ip("ip", "-n", network, "link", "set", "wire", "up")
            if rate:
                ip("tc", "-n", network, "qdisc", "add", "dev", "wire", "root", "handle", "1:", "htb", "default", "1")
                ip("tc", "-n", network, "class", "add", "dev", "wire", "parent", "1:", "classid", "1:1", "htb", "rate", rate + "bit",
                   "burst", "256k", "cburst", "256k", "quantum", str(10 * MTU))

    def __exit__(self, *_):
        for network in self.networks:
            Spaces.remove(network)

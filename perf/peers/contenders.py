"""The contenders: where each is found, how its program is built, how it is started, and with which settings."""
import glob
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from .cases import TYPE_BYTES
from .formatting import FAILED, Refusal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
HERE = os.path.join(ROOT, "perf", "peers")


@dataclass
class Launch:
    """How the ranks of a contender are started: the processes, what their environment has more, what was set."""
    commands: list
    environment: dict = field(default_factory=dict)
    settings: str = ""


@dataclass
class Place:
    """What a launch needs to know."""
    ranks: int
    transport: str
    cpus: list
    folder: str
    networks: list = field(default_factory=list)
    addresses: list = field(default_factory=list)

    def arguments(self, options=()):
        words = ["--ranks", str(self.ranks), "--transport", self.transport, "--folder", self.folder,
                 "--control", os.path.join(self.folder, "control")]
        for name, values in (("--cpus", self.cpus), ("--networks", self.networks), ("--addresses", self.addresses)):
            if values:
                words += [name, ",".join(map(str, values))]
        for option in options:
            words += ["--set", option]
        return words

    def crowded(self):
        return bool(self.cpus) and self.ranks > len(self.cpus)


def one_a_rank(program, place, options=()):
    return [[*program, "--rank", str(rank), *place.arguments(options)] for rank in range(place.ranks)]


def output_of(*command, environment=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def content_of(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


class Build:
    """A build folder of Tutti: the library, the contender's program, and what the peers' programs are linked with."""

    def __init__(self, label, folder):
        self.label, self.folder = label, os.path.realpath(folder)

    def has(self, name):
        return os.access(os.path.join(self.folder, "perf", "compare-" + name), os.X_OK)

    def program(self, name):
        path = os.path.join(self.folder, "perf", "compare-" + name)
        if not self.has(name):
            raise Refusal(f"{path} is not there; build it with: cmake --build {self.folder} "
                          "--target compare-tutti compare-limits, or name another build folder with --build")
        return path

    def compile(self, name, compiler, source, flags=(), environment=None):
        """Builds compare-NAME beside the others where it is older than what it is made of. Returns its path."""
        out = os.path.join(self.folder, "perf", "compare-" + name)
        library = os.path.join(self.folder, "perf")
        command = [*compiler, "-std=c++20", "-O2", "-I", ROOT, "-I", os.path.join(ROOT, "include"),
                   os.path.join(HERE, source), "-o", out, "-L", library, "-ltutti_compare", *flags,
                   f"-Wl,-rpath,{library}", f"-Wl,-rpath,{os.path.join(self.folder, 'lib')}"]
        headers = glob.glob(os.path.join(HERE, "*.h")) + glob.glob(os.path.join(ROOT, "perf", "*.h"))
        stamp, sources = out + ".command", [os.path.join(HERE, source), *headers]
        if os.path.exists(out) and content_of(stamp) == repr(command) and all(os.path.getmtime(s) < os.path.getmtime(out) for s in sources):
            return out
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            errors = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line or "cannot find" in line]
            raise Refusal(f"the program for {name} could not be built: {(errors or ['no reason given'])[0]}", FAILED)
        with open(stamp, "w") as file:
            file.write(repr(command))
        return out


class Contender:
    """What all have in common; who is no peer overrides `peer`."""
    peer = True

    def why_not(self):
        """Why it cannot take part on this machine, or ""."""
        return ""

    def lacks(self, place):
        """Why it cannot take part in this setting, or ""."""
        return ""

    def processes(self, place):
        return place.ranks


class Tutti(Contender):
    """This library; a mode is the memory that the buffers lie in."""
    peer = False

    def __init__(self, build, ours, mode, several, options=()):
        """ours: the build whose program serves where `build`, an older one, has none."""
        self.build, self.ours, self.mode, self.options = build, ours, mode, tuple(options)
        self.name = " ".join(["tutti"] + ([build.label] if several else []) + ([mode] if mode != "host" else []))

    def prepare(self):
        older = not self.build.has("tutti") and os.path.exists(os.path.join(self.build.folder, "lib", "libtutti.so"))
        self.path = (self.ours if older else self.build).program("tutti")

    def launch(self, place):
        options = [f"memory={self.mode}", *self.options]
        said = "its defaults" if self.mode == "host" else "buffers from tutti_memory_alloc"
        library = os.path.join(self.build.folder, "lib")
        return Launch(one_a_rank([self.path], place, options), {"LD_LIBRARY_PATH": library}, ", ".join([said, *self.options]))


class Threads(Contender):
    """Tutti's ranks as threads of one process; joins alone."""
    peer = False

    def __init__(self, build):
        self.build, self.name = build, "tutti threads"

    def prepare(self):
        self.path = self.build.program("tutti")

    def processes(self, place):
        return 1

    def launch(self, place):
        alone = Place(1, place.transport, [], place.folder)
        return Launch(one_a_rank([self.path], alone, [f"threads={place.ranks}"]), {}, "tutti_comm_create_all, not pinned")


class Limit(Contender):
    """One limit of the machine itself, measured as if it were a library."""
    peer = False

    def __init__(self, build, kind):
        self.build, self.kind, self.name = build, kind, "limit " + kind

    def lacks(self, place):
        if self.kind == "stream" and place.transport != "tcp":
            return "a stream is over tcp"
        if self.kind == "hop" and (place.ranks < 2 or len(place.cpus) < 2 or place.networks):
            return "a hop is between two cores"
        return ""

    def prepare(self):
        self.path = self.build.program("limits")

    def launch(self, place):
        return Launch(one_a_rank([self.path], place), {}, "")

    def words(self, case, ranks):
        """The command for this limit beside a case; None where it tells nothing about it."""
        if self.kind == "hop" and case.real_bytes(ranks) > 4096:
            return None
        shortest = 1 if self.kind == "stream" else 4096
        if self.kind != "hop" and (case.collective == "barrier" or case.real_bytes(ranks) < shortest):
            return None
        size = TYPE_BYTES["int32"]
        return (f"case collective={self.kind} type=int32 op=sum count={max(1, case.real_bytes(ranks) // size)} "
                f"slots={case.slots(ranks)}")


class Mpi(Contender):
    """What the MPI libraries have in common."""
    names = ()  # of mpirun, best first
    wrappers = ()
    mark = ""  # what mpirun --version says

    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def environment(self):
        return {}

    def where(self):
        """(mpirun, mpicxx), either None."""
        return tuple(next((path for path in map(shutil.which, names) if path), None) for names in (self.names, self.wrappers))

    def why_not(self):
        run, wrapper = self.where()
        if not run or not wrapper:
            return "not installed"
        said = output_of(run, "--version", environment={**os.environ, **self.environment()}) or ""
        return "" if re.search(self.mark, said) else f"{run} is another MPI's"

    def lacks(self, place):
        return "its launcher cannot cross network namespaces" if place.networks else ""

    def prepare(self):
        wrapper = self.where()[1]
        self.path = self.build.compile(self.name, [wrapper], "mpi.cpp", environment={**os.environ, **self.environment()})


class OpenMpi(Mpi):
    name, names, wrappers, mark = "openmpi", ("mpirun.openmpi", "mpirun"), ("mpicxx.openmpi", "mpicxx"), "Open MPI|OpenRTE"

    def launch(self, place):
        set_to = ["pml ob1", "btl self,vader" if place.transport == "shm" else "btl self,tcp"]
        if place.transport == "tcp":
            set_to.append("btl_tcp_if_include lo")
        if place.crowded():
            set_to.append("mpi_yield_when_idle 1")
        flags = [word for setting in set_to for word in ("--mca", *setting.split(" ", 1))]
        command = [self.where()[0], "-n", str(place.ranks), "--bind-to", "none", "--oversubscribe", *flags, self.path,
                   *place.arguments()]
        return Launch([command], {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                  "OMPI_MCA_orte_tmpdir_base": place.folder}, "; ".join(set_to))


class Mpich(Mpi):
    name, names, wrappers, mark = "mpich", ("mpirun.mpich", "mpiexec.hydra"), ("mpicxx.mpich",), "HYDRA"

    def launch(self, place):
        environment = {}
        if place.transport == "tcp":
            environment = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp"}
        command = [self.where()[0], "-n", str(place.ranks), "-bind-to", "none", self.path, *place.arguments()]
        return Launch([command], environment, " ".join(f"{k}={v}" for k, v in environment.items()) or "its defaults")


class IntelMpi(Mpi):
    """From PyPI's impi-rt and impi-devel in a virtual environment of ours, or where I_MPI_ROOT says."""
    name, mark = "intelmpi", "Intel"

    def home(self):
        return next((h for h in (os.path.join(self.folder, "venv"), os.environ.get("I_MPI_ROOT", ""))
                     if h and os.path.exists(os.path.join(h, "bin", "mpiexec.hydra"))), None)

    def where(self):
        home = self.home()
        paths = [os.path.join(home, "bin", name) for name in ("mpiexec.hydra", "mpicxx")] if home else [None, None]
        return tuple(path if path and os.access(path, os.X_OK) else None for path in paths)

    def environment(self):
        home = self.home() or ""
        return {"I_MPI_ROOT": home, "LD_LIBRARY_PATH": os.path.join(home, "lib"), "FI_PROVIDER_PATH": os.path.join(home, "lib"),
                "PATH": os.path.join(home, "bin") + os.pathsep + os.environ.get("PATH", "")}

    def launch(self, place):
        set_to = {"I_MPI_FABRICS": "shm" if place.transport == "shm" else "ofi", "I_MPI_PIN": "0"}
        if place.transport == "tcp":
            # Else its collectives go through shared memory all the same, inside one machine.
            set_to |= {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", "I_MPI_COLL_INTRANODE": "pt2pt"}
        if place.crowded():
            set_to["I_MPI_THREAD_YIELD"] = "2"
        command = [self.where()[0], "-n", str(place.ranks), self.path, *place.arguments()]
        return Launch([command], {**self.environment(), **set_to}, " ".join(f"{k}={v}" for k, v in set_to.items()))


class Gloo(Contender):
    """Gloo by itself. It has TCP alone, so it is beside shm too what its users get on one machine."""
    name = "gloo"

    def __init__(self, build, folder):
        self.build = build

    def why_not(self):
        return "" if os.path.exists("/usr/include/gloo/allreduce.h") else "not installed"

    def lacks(self, place):
        return "it needs two ranks" if place.ranks < 2 else ""

    def prepare(self):
        self.path = self.build.compile(self.name, [os.environ.get("CXX", "g++")], "gloo.cpp", ["-lgloo"])

    def launch(self, place):
        return Launch(one_a_rank([self.path], place), {}, "tcp, its only transport; its own choice of algorithm")


class TorchGloo(Contender):
    """PyTorch's Gloo, from Python."""
    name = "torch"

    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def python(self):
        for path in (os.path.join(self.folder, "venv", "bin", "python3"), "/usr/bin/python3", sys.executable):
            if os.path.exists(path) and output_of(path, "-c", "import torch.distributed as d; assert d.is_gloo_available()") is not None:
                return path
        return None

    def why_not(self):
        self.path = self.python()
        return "" if self.path else "not installed"

    def lacks(self, place):
        return "it needs two ranks" if place.ranks < 2 else "one interface is all it is asked to use" if place.networks else ""

    def prepare(self):
        self.library = os.path.join(self.build.folder, "perf", "libtutti_compare.so")

    def launch(self, place):
        program = [self.path, os.path.join(HERE, "torch_gloo.py"), self.library]
        return Launch(one_a_rank(program, place), {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
                      "torch.distributed, backend gloo, in place, one thread for computing")


LIMITS = ("hop", "copy", "copy_streaming", "stream")
ALL_PEERS = {"openmpi": OpenMpi, "mpich": Mpich, "intelmpi": IntelMpi, "gloo": Gloo, "torch": TorchGloo}

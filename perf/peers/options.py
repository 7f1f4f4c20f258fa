"""The command line: what may be asked for, and one sentence for what may not."""
import argparse
import os
import tempfile

from . import contenders, networks, output
from .targets import GOALS
from .cases import COLLECTIVES, DIVISIONS, OPS, TYPE_ALIASES, TYPE_BYTES, V_VARIANTS
from .formatting import GOOD, Refusal, parse_size

EXAMPLES = """examples:
  perf/compare --install-peers                       install the peers that this machine can have
  perf/compare all_reduce -b 8 -e 1K -f 4            small messages on two ranks, beside all peers that are installed
  perf/compare all_reduce -b 1M -e 64M -f 4 --inputs usual,fresh --memory host,registered --output perf/results
  perf/compare all_reduce all_gather --ranks 2,4,8 --peers openmpi,mpich
  perf/compare --goal small --output perf/results    one of the goals that docs/benchmarking.md lists, and whether it is met
  perf/compare --build before=../before/build --build after=build --peers none
                                                     two builds of Tutti beside each other

Exit code: 0 good, 1 failed, 2 wrong use, 3 wrong data of Tutti's, 4 a rank of Tutti's was lost or a deadline passed.
A signal ends it by that signal, once all that it has started is ended and removed.
How it measures: docs/benchmarking.md."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refusal(f"{message}; see {self.prog} --help")

    def exit(self, status=0, message=None):
        output.write()
        super().exit(status, message)


def words_of(text, known, option, aliases=None, groups=()):
    """The comma-separated words, each known; "all" is all of them. groups: what else the refusal names."""
    chosen = []
    for word in text.split(","):
        word = (aliases or {}).get(word.strip(), word.strip())
        if word == "all":
            chosen += [k for k in known if k not in chosen]
        elif word not in known:
            raise Refusal(f"{option} was given '{word}', but it takes {', '.join((*known, *groups))} or all, separated by commas")
        elif word not in chosen:
            chosen.append(word)
    return chosen


def number_list(text, option, least, most):
    numbers = []
    for word in text.split(","):
        if not word.strip().isdigit() or not least <= int(word) <= most:
            raise Refusal(f"{option} was given '{text}', but it takes whole numbers from {least} to {most}, separated by commas")
        numbers.append(int(word))
    return numbers


def number(text, option, least, most):
    if not text.strip().isdigit() or not least <= int(text) <= most:
        raise Refusal(f"{option} was given '{text}', but it takes a whole number from {least} to {most}")
    return int(text)


def real(text, option, least, most):
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise Refusal(f"{option} was given '{text}', but it takes a number from {least:g} to {most:g}")
    return value


def size(text, option):
    value = parse_size(text)
    if value is None or value > 1 << 40:
        raise Refusal(f"{option} was given '{text}', but it takes bytes such as 8, 4K, 1M or 2G")
    return value


def sizes_of(given):
    if given.sizes:
        return [size(word, "--sizes") for word in given.sizes.split(",")]
    low, high = size(given.minbytes, "--minbytes"), size(given.maxbytes, "--maxbytes")
    factor = number_list(given.stepfactor, "--stepfactor", 2, 1 << 20)[0]
    if low == 0 or low > high:
        raise Refusal(f"--minbytes {given.minbytes} and --maxbytes {given.maxbytes} leave no size; give at least 1 byte and "
                      "no less than that as the largest")
    sizes = []
    while low <= high:
        sizes.append(low)
        low *= factor
    return sizes


def parser():
    p = Parser(prog="perf/compare", description="Collectives by Tutti and by its peers, in turns, in one run.", epilog=EXAMPLES,
               formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("collectives", nargs="*", metavar="COLLECTIVE", help=f"of {', '.join(COLLECTIVES)}, or all (default all_reduce)")
    p.add_argument("-b", "--minbytes", default="8", metavar="SIZE", help="smallest size (8); bytes are counted as in nccl-tests")
    p.add_argument("-e", "--maxbytes", default="64M", metavar="SIZE", help="largest size (64M)")
    p.add_argument("-f", "--stepfactor", default="4", metavar="N", help="each size is so many times the one before (4)")
    p.add_argument("--sizes", metavar="LIST", help="sizes, instead of -b, -e and -f")
    p.add_argument("-d", "--datatype", default="float32", metavar="TYPES", help="types (float32)")
    p.add_argument("-o", "--op", default="sum", metavar="OPS", help="operators (sum)")
    p.add_argument("--division", default="even", metavar="LIST", help=f"how v-variants' elements are divided into blocks: "
                   f"{', '.join(DIVISIONS)} (even)")
    p.add_argument("--ranks", default="2", metavar="LIST", help="numbers of ranks (2)")
    p.add_argument("--transport", default="shm", metavar="LIST", help="shm, tcp (shm)")
    p.add_argument("--network", default="host", metavar="LIST", help="for tcp: host (the loopback), veth, veth:RATE such as veth:10G, "
                   "a pair of network namespaces, ranks on alternate sides (host)")
    p.add_argument("--inputs", default="usual", metavar="LIST",
                   help="usual: left where the last operation put them; fresh: rewritten between operations, not timed (usual)")
    p.add_argument("--in-place", action="store_true", help="in place, where a peer can")
    p.add_argument("--offset", default="0", metavar="BYTES", help="buffers begin so far behind the beginning of a page, everybody's; "
                   "malloc has 16 (0)")
    p.add_argument("--memory", default="host", metavar="LIST", help="Tutti's buffers: host, registered (host)")
    p.add_argument("--peers", default="all", metavar="LIST", help=f"{', '.join(contenders.ALL_PEERS)}; all or mpi: those "
                   "that are installed; or none (all)")
    p.add_argument("--build", action="append", default=[], metavar="[LABEL=]FOLDER", help="build folder of Tutti (build); several "
                   "with labels are compared with each other")
    p.add_argument("--tutti", action="append", default=[], metavar="NAME=VALUE", help="for Tutti: algorithm=NAME, spin=1 or -1")
    p.add_argument("--rounds", default="15", metavar="N", help="turns that each contender gets, at most (15)")
    p.add_argument("--batch-time", default="2", metavar="MS", help="milliseconds of operations that share a clock reading (2)")
    p.add_argument("--case-time", default="20", metavar="S", help="seconds that one line may take; fewer turns then, at least 5 (20)")
    p.add_argument("--deadline", default="120", metavar="S", help="seconds after which a silent contender is given up (120)")
    p.add_argument("-c", "--check", default="1", metavar="0|1", help="check every element before and after the turns (1)")
    p.add_argument("--bind", default="core", choices=("core", "none"), help="rank r on CPU r, round and round (core)")
    p.add_argument("--strangers", default="0", metavar="N", help="processes that compute on each of the CPUs meanwhile (0)")
    p.add_argument("--output", metavar="FOLDER", help="write table, JSON and plots there")
    p.add_argument("--goal", metavar="LIST", help=f"run what a goal is about and judge it: {', '.join(GOALS)}, or all; other options "
                   "still count")
    p.add_argument("--measure", default="time", choices=("time", "idle", "init"), help="time: operations, in turns; idle: the CPU "
                   "that a rank takes which waits for a late peer; init: how long joining takes (time)")
    p.add_argument("--late", default="10", metavar="S", help="seconds by which the peer is late, with --measure idle (10)")
    p.add_argument("--title", default="", metavar="TEXT", help="begins the names of the files and the heading")
    p.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON lines, to stdout instead of the table, or to FILE")
    p.add_argument("--quiet", action="store_true", help="no progress, no table")
    p.add_argument("--install-peers", action="store_true", help="install what is missing (as root), say what there is, and end")
    p.add_argument("--version", action="store_true")
    return p


def builds_of(given):
    builds = []
    for word in given.build or [os.path.join(contenders.ROOT, "build")]:
        label, equals, folder = word.partition("=")
        label, folder = (label, folder) if equals else ("", word)
        if not os.path.isdir(folder):
            raise Refusal(f"--build {folder} is no folder; build Tutti there first: cmake -S {contenders.ROOT} -B {folder} && "
                          f"cmake --build {folder}")
        builds.append(contenders.Build(label or os.path.basename(os.path.realpath(folder)), folder))
    if len({b.label for b in builds}) < len(builds):
        raise Refusal("two --build folders have the same label; write them as LABEL=FOLDER")
    return builds


def check_files(given):
    """Refuses what cannot be written, now and not when hours of results are there."""
    if not given.quiet or given.json == "-":
        output.write()
    if given.output and os.path.exists(given.output) and not os.path.isdir(given.output):
        raise Refusal(f"--output {given.output} is a file; name a folder")
    if given.output:
        try:
            os.makedirs(given.output, exist_ok=True)
            tempfile.TemporaryFile(dir=given.output).close()
        except OSError as error:
            raise Refusal(f"--output {given.output} cannot be written: {error.strerror}; name a folder that can be") from None
    if given.json and given.json != "-":
        try:
            open(given.json, "a").close()
        except OSError as error:
            raise Refusal(f"--json {given.json} cannot be written: {error.strerror}; name a file that can be") from None


def understand(given):
    """Turns texts into values, in place."""
    given.collectives = words_of(",".join(given.collectives or ["all_reduce"]), COLLECTIVES, "COLLECTIVE")
    given.sizes = sizes_of(given)
    given.types = words_of(given.datatype, TYPE_BYTES, "--datatype", TYPE_ALIASES)
    given.ops = words_of(given.op, OPS, "--op")
    given.divisions = words_of(given.division, DIVISIONS, "--division")
    if given.divisions != ["even"] and not any(c in V_VARIANTS for c in given.collectives):
        raise Refusal(f"--division {given.division} is for v-variants alone; add one of {', '.join(V_VARIANTS)}")
    given.ranks = number_list(given.ranks, "--ranks", 1, 256)
    given.transports = words_of(given.transport, ("shm", "tcp"), "--transport")
    given.networks = given.network.split(",")
    for name in given.networks:
        if not networks.valid(name):
            raise Refusal(f"--network was given '{name}', but it takes host, veth, or veth:RATE such as veth:10G or veth:500M")
    if given.networks != ["host"] and given.transports != ["tcp"]:
        raise Refusal("--network is for tcp alone; add --transport tcp")
    given.inputs = words_of(given.inputs, ("usual", "fresh"), "--inputs")
    given.offset = number(given.offset, "--offset", 0, 4095)
    for name in given.types:
        if given.offset % TYPE_BYTES[name] != 0:
            raise Refusal(f"--offset was given '{given.offset}', but {name} takes a multiple of {TYPE_BYTES[name]}")
    given.memory = words_of(given.memory, ("host", "registered"), "--memory")
    given.named = [word.strip() for word in given.peers.split(",")]
    if "none" in given.named and len(given.named) > 1:
        raise Refusal(f"--peers was given '{given.peers}', but none stands alone")
    peers = ",".join("openmpi,mpich,intelmpi" if word == "mpi" else word for word in given.named)
    given.wanted = words_of(peers, contenders.ALL_PEERS, "--peers", groups=("mpi",)) if peers != "none" else []
    given.rounds = number(given.rounds, "--rounds", 1, 100000)
    given.batch_time = real(given.batch_time, "--batch-time", 0.001, 60000)
    given.case_time = real(given.case_time, "--case-time", 0.01, 36000)
    given.strangers = number(given.strangers, "--strangers", 0, 64)
    given.late = real(given.late, "--late", 0.2, 100)
    given.goals = words_of(given.goal, GOALS, "--goal") if given.goal else []
    given.deadline = real(given.deadline, "--deadline", 1, 36000)
    given.check = number(given.check, "--check", 0, 1) == 1
    for word in given.tutti:
        name, is_there, value = word.partition("=")
        if not is_there:
            raise Refusal(f"--tutti was given '{word}', but it takes NAME=VALUE, such as algorithm=ring")
        if name not in ("algorithm", "spin"):
            raise Refusal(f"--tutti was given '{word}', but its names are algorithm and spin")
        if name == "spin" and value not in ("-1", "0", "1"):
            raise Refusal(f"--tutti was given '{word}', but spin is 1 (always), 0 (as it finds best) or -1 (never)")
    check_files(given)


def read(arguments):
    """The options as values; raises Refusal, or SystemExit after --help."""
    given = parser().parse_args(arguments)
    if not given.version:
        understand(given)
    return given


def for_goal(name, arguments):
    """The options of a goal's run, those given on the command line before its own."""
    given = parser().parse_args([*GOALS[name].arguments, *arguments])
    given.title = given.title or name
    understand(given)
    return given


__all__ = ["GOOD", "builds_of", "for_goal", "read"]

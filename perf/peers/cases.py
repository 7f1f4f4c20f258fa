"""What is measured: cases, and how their bytes are counted."""
import itertools
from dataclasses import dataclass

from . import tables

TYPE_BYTES, TYPE_ALIASES = tables.element_types()
OPS = tables.operators()
ROWS = tables.collectives()
# What tutti-perf makes of them besides: blocks of lengths of their own, and a ring of messages.
V_VARIANTS = ("all_gather_v", "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v")
DIVISIONS = ("even", "skewed", "zeros", "one")
ROWS |= {"send_recv": (False, False, "once")} | {v: ROWS[v.removesuffix("_v")] for v in V_VARIANTS}
# As tutti-perf counts: a case's bytes are those of the larger of a rank's two buffers. Whether it has a block a rank.
COLLECTIVES = {name: blocks for name, (blocks, _, _) in ROWS.items()}
REDUCING = tuple(name for name, (_, reduces, _) in ROWS.items() if reduces)
FRESH_ROOM = 1 << 20  # bytes that the slots of fresh inputs may take
LINE = 64


@dataclass(frozen=True)
class Setting:
    """What contenders are started for."""
    ranks: int
    transport: str
    network: str = "host"  # or a pair of network namespaces, see networks.py


@dataclass(frozen=True)
class Case:
    """One line of the table."""
    collective: str
    bytes: int
    type: str
    op: str
    inputs: str  # "usual" or "fresh"
    in_place: bool
    offset: int = 0  # bytes by which buffers begin behind the beginning of a page
    division: str = "even"  # of a v-variant: how its elements are divided into blocks

    def blocks(self, ranks):
        return ranks if COLLECTIVES[self.collective] else 1

    def count(self, ranks):
        """The API's count, at least 1 element; 0 for a barrier."""
        if self.collective == "barrier":
            return 0
        return max(1, self.bytes // TYPE_BYTES[self.type] // self.blocks(ranks))

    def real_bytes(self, ranks):
        return self.count(ranks) * TYPE_BYTES[self.type] * self.blocks(ranks)

    def slots(self, ranks):
        """Places that fresh inputs lie in, so that operations can still share a clock reading."""
        if self.inputs != "fresh":
            return 1
        stride = max(LINE, -(-self.real_bytes(ranks) // LINE) * LINE)
        return max(1, min(4096, FRESH_ROOM // stride))

    def words(self, ranks):
        """The command that makes a rank ready for this case."""
        # MPI's broadcast has one buffer: to compare like with like, everybody's is in place.
        in_place = self.in_place or self.collective == "broadcast"
        return (f"case collective={self.collective} type={self.type} op={self.op} root=0 count={self.count(ranks)} "
                f"division={self.division} in_place={int(in_place)} slots={self.slots(ranks)} offset={self.offset}")


def cases_of(collectives, types, ops, inputs, sizes, in_place, offset=0, divisions=("even",)):
    """All combinations that differ: operators are for reductions, divisions for v-variants, a barrier has no type and no size."""
    seen = []
    for c, d, o, i, v, b in itertools.product(collectives, types, ops, inputs, divisions, sizes):
        barrier = c == "barrier"
        case = Case(c, 0 if barrier else b, "int8" if barrier else d, o if c in REDUCING else ops[0],
                    inputs[0] if barrier else i, in_place and not barrier, 0 if barrier else offset,
                    v if c in V_VARIANTS else "even")
        if case not in seen:
            seen.append(case)
            yield case


def bus_factor(collective, ranks):
    """What nccl-tests multiplies bytes / time by."""
    others = (ranks - 1) / ranks
    return {"once": 1, "others": others, "twice_others": 2 * others}[ROWS[collective][2]]

"""PyTorch's Gloo under comparison, as a PyTorch program has it: torch.distributed's calls from Python.

Started by perf/compare: torch_gloo.py LIBRARY ARGUMENT..., LIBRARY being libtutti_compare.so. PyTorch reduces and
broadcasts in place alone: where a result is checked, the input is copied to it first, and this copy is not timed.
"""
import ctypes
import datetime
import os
import sys

import torch
import torch.distributed as dist

TYPES = {"int8": torch.int8, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64, "float16": torch.float16,
         "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
SENTENCE = ctypes.c_void_p  # char[512], which a c_char_p argument would make a copy of


def say(said, sentence):
    text = str(sentence).splitlines()[0].encode()[:511] if str(sentence) else b"it failed without a reason"
    ctypes.memmove(said, text + b"\0", len(text) + 1)


def explained(function):
    """An exception becomes the sentence, the last argument's."""
    def call(*arguments):
        try:
            function(*arguments)
        except Exception as failure:  # whatever it is, the conductor is to hear of it
            say(arguments[-1], failure)
    return call


class State:
    """What lacks() was asked about, and the buffers since."""

    def __init__(self):
        self.rank = self.ranks = 0
        self.verb, self.slots = None, []


state = State()


def tensor(address, size, dtype):
    if not address or not size:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=dtype)


def all_reduce(send, recv, checked):
    if checked and send.data_ptr() != recv.data_ptr():
        recv.copy_(send)
    dist.all_reduce(recv, state.op)


def reduce(send, recv, checked):
    target = recv if state.rank == state.root else send
    if checked and state.rank == state.root:
        recv.copy_(send)
    dist.reduce(target, state.root, state.op)


def broadcast(send, recv, checked):
    dist.broadcast(recv, state.root)


def all_gather(send, recv, checked):
    dist.all_gather(list(recv.chunk(state.ranks)), send)


def all_to_all(send, recv, checked):
    dist.all_to_all_single(recv, send)


def gather(send, recv, checked):
    dist.gather(send, list(recv.chunk(state.ranks)) if state.rank == state.root else None, state.root)


def scatter(send, recv, checked):
    dist.scatter(recv, list(send.chunk(state.ranks)) if state.rank == state.root else None, state.root)


def send_recv(send, recv, checked):
    arriving = dist.irecv(recv, (state.rank - 1) % state.ranks)
    leaving = dist.isend(send, (state.rank + 1) % state.ranks)
    arriving.wait()
    leaving.wait()


def barrier(send, recv, checked):
    dist.barrier()


VERBS = {f.__name__: f for f in (all_reduce, reduce, broadcast, all_gather, all_to_all, gather, scatter, send_recv, barrier)}


@explained
def start(rank, ranks, folder, address, said):
    state.rank, state.ranks = rank, ranks
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder.decode(), "torch"), rank=rank,
                            world_size=ranks, timeout=datetime.timedelta(seconds=100))


@explained
def version(said):
    say(said, f"PyTorch {torch.__version__}")


@explained
def lacks(collective, kind, op, in_place, root, count, said):
    collective, kind, op = collective.decode(), kind.decode(), op.decode()
    state.verb, state.type, state.op, state.root = VERBS.get(collective), TYPES.get(kind), OPS.get(op), root
    if state.verb is None:
        say(said, "its Gloo has no such collective")
    elif state.type is None or state.op is None:
        say(said, "its Gloo has no such type or operator")
    elif collective == "reduce":
        say(said, "its reduce changes the input of ranks that get no result")
    elif in_place and collective not in ("all_reduce", "broadcast"):
        say(said, "its in place means something else")


@explained
def slot(send, recv, send_bytes, recv_bytes, said):
    state.slots.append((tensor(send, send_bytes, state.type), tensor(recv, recv_bytes, state.type)))


def finish():
    state.slots = []


@explained
def run(operations, checked, said):
    verb, slots = state.verb, state.slots
    if len(slots) == 1:
        send, recv = slots[0]
        for _ in range(operations):
            verb(send, recv, checked)
    else:
        for i in range(operations):
            verb(*slots[i % len(slots)], checked)


def main():
    library = ctypes.CDLL(sys.argv[1])
    text, number, size = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64
    signatures = [(start, (number, number, text, text, SENTENCE)), (version, (SENTENCE,)),
                  (lacks, (text, text, text, number, number, size, SENTENCE)),
                  (slot, (ctypes.c_void_p, ctypes.c_void_p, size, size, SENTENCE)), (finish, ()),
                  (run, (size, number, SENTENCE))]
    functions = [ctypes.CFUNCTYPE(None, *types)(function) for function, types in signatures]
    table = (ctypes.c_void_p * len(functions))(*(ctypes.cast(f, ctypes.c_void_p) for f in functions))
    words = [word.encode() for word in sys.argv[1:]]
    return library.compare_serve(table, len(words), (ctypes.c_char_p * len(words))(*words))


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())  # PyTorch's threads are not waited for

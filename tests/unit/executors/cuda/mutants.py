#!/usr/bin/env python3
"""Plants faults into the kernel that interprets programs, one at a time, and runs its tests under the thread sanitizer.

Usage, from the repository's root: mutants.py BUILD [NUMBER ...], where BUILD is a build with the thread sanitizer in which
cuda_interpreter_test is built. A fault is found where a test fails, a race is reported, or nothing ends within the limit.
Exits 1 where one is not found, or where the tests fail without any. It takes minutes, so no test runs it.

mutants.py --check    whether every fault can still be planted: what a test runs
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

TEST = "cuda_interpreter_test"
LIMIT_S = 150
# Of every algorithm three ranks are enough, by both protocols.
FILTER = "-*EveryAlgorithm*/0:*EveryAlgorithm*/1:*EveryAlgorithm*/2:*EveryAlgorithm*/3:*EveryAlgorithm*/6:" \
         "*EveryAlgorithm*/7:*EveryAlgorithm*/8:*EveryAlgorithm*/9:*EveryList*/0:*EveryList*/1:*EveryList*/2:*EveryList*/3:" \
         "*EveryList*/6:*EveryList*/7"

KERNEL = "src/executors/cuda/interpreter.h"
PROTOCOL = "src/executors/cuda/protocol.h"
# What is said of a fault, its file, what stands there, and what stands there instead.
FAULTS = [
    ("a step retires before all threads are done", KERNEL,
     "      group_.barrier();  // all have done their part, and looked at what the step's words said\n", ""),
    ("messages are handed over before all threads have read and written", KERNEL,
     "      group_.barrier();  // all have read and written\n", ""),
    ("the places of a piece are written while the one before is swept", KERNEL,
     "    group_.barrier();  // what was swept before is done with the storage\n", ""),
    ("blocks are told apart by nothing", KERNEL, "tag = tag_with(tag, sizing_block(at, p).tag);", "tag = 0;"),
    ("a segment goes on for a byte of the next one", KERNEL,
     "return s >= list.count || list.segments[s].begin > offset;",
     "return s >= list.count || list.segments[s].begin >= offset;"),
    ("segments are swept without looking at their ends", KERNEL,
     "if (lists) bytes = bytes_in_one_place(at, piece, bytes);", "if (lists) bytes += 0;"),
    ("only sources end a sweep", KERNEL,
     "for (std::uint32_t o = 0; o < operands; ++o) most = Elements::least(",
     "for (std::uint32_t o = 0; o < operands && o < at.now->sources; ++o) most = Elements::least("),
    ("the output lies where the input does", KERNEL,
     "return job_of(at).lists[static_cast<std::uint32_t>(which.place)];",
     "return job_of(at).lists[0 * static_cast<int>(which.place)];"),
    ("segments are looked at before they are noted", KERNEL,
     "    seek(at, piece);\n    group_.barrier();\n", "    seek(at, piece);\n"),
    ("a word is taken for one of a segment that ends in it", KERNEL,
     "return bytes_in_segment(at, o, piece) < line_data_bytes ?",
     "return bytes_in_segment(at, o, piece) + 1 < line_data_bytes ?"),
    ("scattered pieces are lines of one place", KERNEL, "return bytes_in_one_place(at, piece, bytes) < bytes;",
     "return bytes == 0;"),
    ("scattered lines are read from where their piece begins", KERNEL,
     "visit(address(at, o, {piece, begin, byte - begin}), i);",
     "visit(address(at, o, {piece, begin, 0}) + (byte - begin), i);"),
    ("a block's last window is cut as a whole one", KERNEL, "here == blob.window ? blob.chunk : block.chunk", "blob.chunk"),
    ("a piece is swept before its places are written", KERNEL,
     "    const std::uint32_t targets = place_targets(at, piece, divide_by(at));\n    group_.barrier();\n",
     "    const std::uint32_t targets = place_targets(at, piece, divide_by(at));\n"),
    ("passes overlap deeper than the plan says", KERNEL,
     "if (at.step == 0 && at.own_pass >= blob.depth) {", "if (at.step == 0 && at.own_pass > blob.depth + 8) {"),
    ("dependencies are not awaited", KERNEL, "d < at.now->dependency_count;", "d + 1 < 1;"),
    ("room is not awaited", KERNEL,
     "return SendingEnd<SystemWords>{end.credit, end.arrived, end.slot_count}.has_room(n);", "return true;"),
    ("messages are not awaited", KERNEL, "return ReceivingEnd<SystemWords>{end.arrived, end.credit}.has_come(n);",
     "return true;"),
    ("the first line is not awaited", KERNEL,
     "if (has_lines(at)) return SystemLine::get(line_in(slot(end), 0), n, fingerprint);", "if (has_lines(at)) return true;"),
    ("any operation's message is taken", KERNEL, "if (found == fingerprint_of(at)) continue;",
     "if (found != 1) continue;"),
    ("the history of a communicator is not carried on", KERNEL,
     "launch_.order->history * 6364136223846793005u + jobs_[j].operation_hash;", "jobs_[j].operation_hash;"),
    ("the turn is not awaited", KERNEL, "if (first ? turns.has_come(number) :", "if (first ? number + 1 != 0 :"),
    ("other blocks do not wait for the first", KERNEL, ": DeviceWords::load_acquire(words_.opened) != 0) break;", ": true) break;"),
    ("other blocks do not acquire what the first wrote", KERNEL, ": DeviceWords::load_acquire(words_.opened) != 0) break;",
     ": DeviceWords::load_relaxed(words_.opened) != 0) break;"),
    ("a message is published without its data", PROTOCOL, "Words::store_release(*peer_arrived, n + 1);",
     "Words::store_relaxed(*peer_arrived, n + 1);"),
    ("a slot is released without an order", PROTOCOL, "Words::store_release(*peer_credit, n + 1);",
     "Words::store_relaxed(*peer_credit, n + 1);"),
    ("a message is not acquired", PROTOCOL,
     "return Words::load_relaxed(*arrived) > n && Words::load_acquire(*arrived) > n;",
     "return Words::load_relaxed(*arrived) > n;"),
    ("a slot's room is not acquired", PROTOCOL,
     "return n - Words::load_relaxed(*credit) < slots && n - Words::load_acquire(*credit) < slots;",
     "return n - Words::load_relaxed(*credit) < slots;"),
    ("a step retires without an order", KERNEL, "DeviceWords::store_release(at.task->retired, retired);",
     "SystemWords::store_relaxed(at.task->retired, retired);"),
    ("a retired step is not acquired", KERNEL,
     "return DeviceWords::load_relaxed(other.retired) >= wanted && DeviceWords::load_acquire(other.retired) >= wanted;",
     "return DeviceWords::load_relaxed(other.retired) >= wanted;"),
    ("lines are released before all threads have read them", KERNEL, "if (group_.any(ended_)) return false;",
     "if (ended_) return false;"),
    ("lines are not cleaned", KERNEL, "    if (cleans) clean_lines(at);\n", ""),
    ("the last line of a message is not moved", KERNEL,
     "bool has_part =\n        end % line_data_bytes != 0 &&", "bool has_part =\n        end % line_data_bytes > 8 &&"),
    ("every step divides", KERNEL, "return (at.now->flags & last_touch) != 0 ? job_of(at).blob->divide_by : 0;",
     "return job_of(at).blob->divide_by;"),
    ("strands do each other's passes", KERNEL, "at.pass = Strand{at.strand, blob.strands}.pass(at.own_pass);",
     "at.pass = at.own_pass;"),
    ("a block stays with a task that is stuck", KERNEL, "group_.any(group_.rank() == 0 && should_change())",
     "group_.any(group_.rank() == group_.size())"),
    ("the turn is not handed on", KERNEL, "if (ended.opened != 0) Turns<DeviceWords>", "if (ended.opened > 1) Turns<DeviceWords>"),
    ("tasks are left as they ended", KERNEL, "jobs_[j].tasks[t] = Task{};", "jobs_[j].tasks[t].claim = 0;"),
    ("a launch without a turn cleans tasks", KERNEL, "ended.opened != 0 && j < launch_.job_count", "j < launch_.job_count"),
    ("each that stops a launch says why", KERNEL, "if (!DeviceWords::exchange_acquire(words_.stopped, 0, 1)) return;",
     "DeviceWords::exchange_acquire(words_.stopped, 0, 1);"),
    ("a job does not wait for the rank's job before it", KERNEL,
     "return jobs_[job].predecessor == 0 || is_job_finished(jobs_[job].predecessor - 1);", "return true;"),
    ("a finished job is not acquired", PROTOCOL,
     "return Words::load_relaxed(finished) == tasks && Words::load_acquire(finished) == tasks;",
     "return Words::load_relaxed(finished) == tasks;"),
    ("a job is finished with its first task", KERNEL, "is_finished(job_words(job).finished, jobs_[job].work);",
     "is_finished(job_words(job).finished, jobs_[job].work != 0);"),
    ("steps that tasks retired for earlier jobs count for this one", KERNEL,
     "at.begin = retired_before(at, at.lane);", "at.begin = 0;"),
    ("so do those that dependencies are of", KERNEL, "= retired_before(at, lane) + own_pass * ", "= own_pass * "),
    ("operations of a launch share a place in the history", KERNEL,
     "if (j == 0 || jobs_[j].operation != jobs_[j - 1].operation)", "if (j == 0)"),
    ("jobs that are done end as the one that is not", KERNEL, "if (ended.opened != 0 && is_job_finished(job) &&",
     "if (ended.finished == launch_.busy_jobs && is_job_finished(job) &&"),
    ("jobs without work end before those that they come behind", KERNEL,
     "is_job_finished(job) && (before == 0 || is_job_finished(before - 1))) return", "is_job_finished(job)) return"),
    ("words of jobs are left as they ended", KERNEL, "job_words(j) = JobWords{};", "job_words(j).fingerprint = 0;"),
    ("all jobs' time begins with the launch's", KERNEL, "load_relaxed(job_words(at.job).begun_ns)",
     "load_relaxed(job_words(0).begun_ns)"),
]


def commands(build: str) -> tuple[str, str]:
    """How the test's one source is compiled, and how the program is linked."""
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", TEST], check=True, capture_output=True, text=True)
    own = [line for line in lines.stdout.splitlines() if f"{TEST}.dir" in line]
    if len(own) != 2:
        sys.exit(f"mutants.py: {TEST} is made of {len(own) - 1} sources, not of one")
    return own[0], own[1]


def text_for(fault: tuple[str, str, str, str]) -> str:
    """Of the file that the fault is planted into."""
    _, file, old, _ = fault
    with open(file, encoding="utf-8") as source:
        text = source.read()
    if text.count(old) != 1:
        sys.exit(f"mutants.py: {file} has this {text.count(old)} times, not once: {old}")
    return text


def planted(folder: str, fault: tuple[str, str, str, str]) -> None:
    _, file, old, new = fault
    text = text_for(fault)
    os.makedirs(os.path.join(folder, os.path.dirname(file)))
    with open(os.path.join(folder, file), "w", encoding="utf-8") as target:
        target.write(text.replace(old, new))


def verdict(build: str, fault: tuple[str, str, str, str] | None) -> str:
    """What the tests make of a fault: "" where they find none."""
    with tempfile.TemporaryDirectory() as folder:
        if fault:
            planted(folder, fault)
        compile_command, link_command = commands(build)
        unit = re.search(r" -o (\S+\.o) ", compile_command)[1]
        made, program = os.path.join(folder, "unit.o"), os.path.join(folder, TEST)
        compile_command = re.sub(r"(c\+\+|g\+\+|clang\+\+\S*) ", rf"\1 -I{folder} ", compile_command, count=1)
        compile_command = re.sub(r" -M[DTF]\S*( \S+\.o(\.d)?)?", "", compile_command).replace(f" -o {unit} ", f" -o {made} ")
        link_command = link_command.replace(unit, made).replace(f"-o tests/{TEST}", f"-o {program}")
        for command in (compile_command, link_command):
            done = subprocess.run(command, shell=True, cwd=build, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"mutants.py: this does not build: {fault and fault[0]}\n{done.stderr[-2000:]}")
        try:
            run = subprocess.run([program, f"--gtest_filter={FILTER}"], capture_output=True, text=True, timeout=LIMIT_S,
                                 env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"})
        except subprocess.TimeoutExpired:
            return "no end"
        if "ThreadSanitizer" in run.stdout + run.stderr:
            return "a race"
        failed = re.search(r"\[  FAILED  \] (\S+)", run.stdout)
        return "" if run.returncode == 0 else failed[1] if failed else f"ended with {run.returncode}"


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    if build == "--check":
        for fault in FAULTS:
            text_for(fault)
        return 0
    chosen = [FAULTS[int(number)] for number in sys.argv[2:]] or FAULTS
    if failure := verdict(build, None):
        sys.exit(f"mutants.py: without a fault: {failure}")
    print("as it is: passes", flush=True)
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for fault, found in zip(chosen, pool.map(lambda each: verdict(build, each), chosen)):
            missed += not found
            print(f"{FAULTS.index(fault):2} {fault[0]}: {found or 'NOT FOUND'}", flush=True)
    print(f"{len(chosen)} faults, {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""perf/compare: what it refuses, how it counts, who has when a turn, what it makes of the numbers, and how it ends.

Usage: compare_test.py [BUILD_FOLDER]: with a build folder, a small run with Tutti alone too.
"""
import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "perf"))
sys.dont_write_bytecode = True

from peers import cases, formatting, main, networks, options, plots, processes, report, results, rounds, signals, targets  # noqa: E402

from leftovers import mind_signals, spaces_can_be_made, spaces_of, started  # noqa: E402

BUILD = None
KI, MI = 1 << 10, 1 << 20


def case(**changes):
    return cases.Case(**{**dict(collective="all_reduce", bytes=1024, type="float32", op="sum", inputs="usual", in_place=False),
                         **changes})


def timed(median, **more):
    return {"median_us": median, "min_us": median * .9, "max_us": median * 2, "spread": .1, "rounds": 5, **more}


def record(size, contenders, limits=None, **changes):
    setting = cases.Setting(2, changes.pop("transport", "shm"))
    peers = [n for n in contenders if not n.startswith("tutti")]
    ours = [n for n in contenders if n.startswith("tutti")]
    return results.line(setting, case(bytes=size, **changes), contenders, limits or {}, peers, ours)


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().split("\0")[0]
    except OSError:
        return ""


class Words(unittest.TestCase):
    def test_sizes_are_read_and_written_alike(self):
        for text, size in (("8", 8), ("4K", 4096), ("4KiB", 4096), ("1m", MI), ("2G", 2 << 30), ("17B", 17),
                           ("0.5G", 512 * MI), ("1.5k", 1536), ("0.3K", 307), ("1.5KiB", 1536)):
            self.assertEqual(formatting.parse_size(text), size)
        for text in ("", "K", "-1", "1.5", "1.5B", "1,5K", "4KK", "1T", "8 8"):
            self.assertIsNone(formatting.parse_size(text), text)
        self.assertEqual([formatting.size_text(s) for s in (8, 4096, 4100, MI, 3 << 30)], ["8 B", "4 KiB", "4100 B", "1 MiB", "3 GiB"])

    def test_times_carry_a_unit_that_suits_them(self):
        self.assertEqual([formatting.time_text(t) for t in (.0312, .9, 1.25, 999, 12345, 2.5e6)],
                         ["31 ns", "900 ns", "1.25 us", "999 us", "12.3 ms", "2.5 s"])


class Refusals(unittest.TestCase):
    def refused(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(main.main(list(arguments)), formatting.WRONG_USE, arguments)
        self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())
        return said.getvalue()

    def test_each_wrong_word_is_one_sentence_that_names_it(self):
        for arguments, named in ((["all_redcue"], "all_redcue"), (["-b", "8Q"], "8Q"), (["-b", "2K", "-e", "1K"], "2K"),
                                 (["-d", "float99"], "float99"), (["-o", "xor"], "xor"), (["--ranks", "0"], "'0'"),
                                 (["--ranks", "two"], "two"), (["--transport", "ib"], "ib"), (["--peers", "nccl"], "nccl"), (["--peers", "nccl"], ", mpi or all"), (["--peers", "mpi,none"], "none stands alone"),
                                 (["--build", "/no/such/folder"], "/no/such/folder"), (["--rounds", "0"], "'0'"),
                                 (["--division", "odd"], "odd"), (["--division", "skewed"], "all_gather_v"), (["--goal", "fastest"], "fastest"), (["--network", "veth:fast"], "veth:fast"),
                                 (["--network", "veth"], "--transport tcp"), (["--inputs", "stale"], "stale"),
                                 (["--memory", "cuda"], "cuda"), (["--tutti", "ring"], "ring"), (["--tutti", "spin=abc"], "spin=abc"),
                                 (["--tutti", "lanes=3"], "lanes=3"), (["--json", "/no/such/folder/x"], "/no/such/folder/x"), (["--deadline", "nan"], "nan"),
                                 (["--frobnicate"], "--frobnicate"), (["--output", __file__], __file__), (["--output", "/dev/null/x"], "--output /dev/null/x"),
                                 (["--output", "/proc/x"], "--output /proc/x")):
            self.assertIn(named, self.refused(*arguments))

    def test_a_build_folder_without_the_programs_says_how_to_make_them(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("cmake --build", self.refused("--build", folder, "--peers", "none"))

    def test_with_json_the_sentence_is_a_json_line_too(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.refused("--json", "-b", "8Q")
        self.assertEqual(json.loads(said.getvalue())["exit"], formatting.WRONG_USE)

    def test_more_memory_than_there_is_is_refused_before_anyone_is_started(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("lower -e", self.refused("--build", folder, "--peers", "none", "--sizes", "1024G"))

    def test_the_same_label_twice_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("same label", self.refused("--build", "x=" + folder, "--build", "x=" + folder))

    def test_the_command_line_wins_over_a_goals_own_arguments(self):
        given = options.for_goal("small", ["-f", "4", "--rounds", "3"])
        self.assertEqual((given.sizes, given.rounds, given.title), ([8, 32, 128, 512], 3, "small"))

    def test_every_goal_can_be_run(self):
        for name in targets.GOALS:
            self.assertTrue(options.for_goal(name, []).title)


class Counting(unittest.TestCase):
    def test_bytes_are_the_larger_buffers_as_in_nccl_tests(self):
        self.assertEqual(case().count(4), 256)
        self.assertEqual(case(collective="all_gather").count(4), 64)
        self.assertEqual(case(collective="all_gather").real_bytes(4), 1024)
        self.assertEqual(case(collective="all_to_all", bytes=8).count(4), 1)  # a block has an element at least
        self.assertEqual(case(collective="all_to_all", bytes=8).real_bytes(4), 16)
        self.assertEqual(case(collective="barrier").count(4), 0)

    def test_fresh_inputs_have_slots_of_whole_lines_within_a_mebibyte(self):
        self.assertEqual(case(bytes=8, inputs="fresh").slots(2), 4096)
        self.assertEqual(case(bytes=64 * KI, inputs="fresh").slots(2), 16)
        self.assertEqual(case(bytes=64 * MI, inputs="fresh").slots(2), 1)
        self.assertEqual(case(bytes=8).slots(2), 1)

    def test_buffers_lie_behind_a_page_by_what_is_said(self):
        self.assertIn("offset=16", case(offset=16).words(2))
        self.assertIn("offset=0", case().words(2))
        self.assertEqual(options.read(["--offset", "4092"]).offset, 4092)
        for wrong in (["--offset", "2"], ["--offset", "4096"], ["--offset", "x"], ["--offset", "4", "-d", "float64"]):
            with self.assertRaises(formatting.Refusal):
                options.read(wrong)
        title = report.group_title(report.group_of(record(8, {"tutti": timed(1)}, offset=16)))
        self.assertIn("16 bytes behind a page", title)

    def test_v_variants_alone_have_divisions(self):
        divided = list(cases.cases_of(["all_gather_v", "all_gather"], ["float32"], ["sum"], ["usual"], [8], False, 0, ["even", "skewed"]))
        self.assertEqual([(c.collective, c.division) for c in divided],
                         [("all_gather_v", "even"), ("all_gather_v", "skewed"), ("all_gather", "even")])
        self.assertIn("division=skewed", divided[1].words(2))
        title = report.group_title(report.group_of(record(8, {"tutti": timed(1)}, collective="all_gather_v", division="skewed")))
        self.assertTrue(title.endswith("division skewed"), title)

    def test_broadcast_is_in_place_for_everyone(self):
        self.assertIn("in_place=1", case(collective="broadcast").words(2))
        self.assertIn("in_place=0", case().words(2))


class Numbers(unittest.TestCase):
    def test_the_median_and_quartiles_of_the_rounds(self):
        summary = results.summary([5, 1, 3, 2, 4])
        self.assertEqual((summary["median_us"], summary["min_us"], summary["max_us"], summary["rounds"]), (3, 1, 5, 5))
        self.assertAlmostEqual(summary["spread"], (4.5 - 1.5) / 3)
        self.assertEqual(results.summary([7])["spread"], 0)

    def test_the_ratio_is_to_the_best_peer_whose_data_is_right(self):
        contenders = {"tutti": timed(2), "a": timed(4), "b": timed(5), "cheat": timed(1, wrong=3), "absent": {"lacks": "it"}}
        found = record(1024, contenders)["ratios"]["tutti"]
        self.assertEqual((found["best_peer"], found["ratio"]), ("a", .5))

    def test_without_a_peer_there_is_no_ratio_and_no_failure(self):
        found = record(1024, {"tutti": timed(2)})
        self.assertIsNone(found["ratios"]["tutti"]["ratio"])
        self.assertIn("1 KiB", report.tables([found], ["tutti"]))

    def test_limits_are_half_a_round_trip_and_the_faster_copy(self):
        limits = {"hop": timed(.4), "copy": timed(30), "copy_streaming": timed(20), "stream": timed(50)}
        found = record(MI, {"tutti": timed(100)}, limits)
        self.assertAlmostEqual(found["limit"]["L_ns"], 200)
        self.assertEqual(found["limit"]["M_us"], 20)
        self.assertEqual(found["ratios"]["tutti"]["of_M"], 5)
        self.assertEqual(found["ratios"]["tutti"]["of_stream"], .5)  # two ranks send each byte once

    def test_a_core_taken_away_for_a_moment_does_not_shorten_the_batches(self):
        class Disturbed:
            """A thousand nanoseconds an operation, but 5 ms more the first time."""
            asked = 0

            def ask(self, command):
                Disturbed.asked += 1
                return [{"ns": [int(command.rsplit("=", 1)[1]) * 1000 + (5_000_000 if Disturbed.asked == 1 else 0)]}]
        self.assertEqual(rounds.estimate(Disturbed()), 1000)

    def test_a_round_is_the_slowest_ranks_time_of_each_batch(self):
        self.assertEqual(rounds.slowest([{"ns": [10, 50]}, {"ns": [30, 20]}]), 80)


class Judging(unittest.TestCase):
    def verdicts(self, name, records):
        return [(v.limit, v.met) for v in targets.judge(targets.GOALS[name], records)]

    def test_ratios_are_judged_by_size(self):
        records = [record(size, {"tutti": timed(ratio), "peer": timed(1)}) for size, ratio in
                   ((4 * KI, .6), (8 * KI, .7), (256 * KI, .9))]
        self.assertEqual(self.verdicts("crowded", records), [(.6, True), (.75, True), (.85, False)])

    def test_the_smallest_message_is_held_to_the_hop(self):
        records = [record(8, {"tutti": timed(.36), "peer": timed(1)}, {"hop": timed(.4)})]
        self.assertEqual(self.verdicts("small", records), [(.6, True), (350, False)])

    def test_registered_memory_is_held_to_copies_above_16_mebibytes(self):
        records = [record(size, {"tutti registered": timed(1.2), "peer": timed(3)}, {"copy": timed(1)}) for size in (16 * MI, 32 * MI)]
        self.assertEqual(self.verdicts("registered", records), [(.5, True), (.5, True), (1.25, True)])

    def test_a_wire_is_held_to_the_plain_stream(self):
        for took, met in ((100, True), (120, False)):
            records = [record(64 * MI, {"tutti": timed(took)}, {"stream": timed(99)}, transport="tcp")]
            self.assertEqual(self.verdicts("wire", records), [(.95, met)])

    def test_types_are_held_to_float32(self):
        records = [record(16 * MI, {"tutti": timed(t)}, type=kind) for kind, t in (("float32", 10), ("float16", 10.5), ("int8", 12))]
        self.assertEqual(self.verdicts("types", records), [(1.1, True), (1.1, False)])

    def test_what_cannot_be_judged_is_missed(self):
        dead = [record(8, {"tutti": {"failed": "tutti died"}, "peer": timed(1)}), record(8, {"tutti": timed(1), "peer": {"failed": "gone"}})]
        self.assertEqual(self.verdicts("middle", dead), [(.85, False), (.85, False)])
        said = [v.text() for v in targets.judge(targets.GOALS["middle"], dead)]
        self.assertIn("tutti died", said[0])
        self.assertIn("no peer was timed", said[1])
        idle = {"measure": "idle", "ranks": 2, "transport": "shm", "contenders": {"tutti": {"failed": "lost"}}}
        self.assertEqual(self.verdicts("idle", [idle]), [(.01, False)])

    def test_waiting_and_joining(self):
        idle = {"measure": "idle", "ranks": 2, "transport": "shm", "contenders": {"tutti": {"core": .002, "seconds": 10}, "p": {"core": 1}}}
        self.assertEqual(self.verdicts("idle", [idle]), [(.01, True)])
        init = {"measure": "init", "ranks": 64, "transport": "shm", "contenders": {"tutti": {"median_ms": 1200}}}
        self.assertEqual(self.verdicts("init", [init]), [(1000, False)])


class Telling(unittest.TestCase):
    def records(self):
        return [record(size, {"tutti": timed(size ** .5), "openmpi": timed(size ** .5 * 2), "gloo": {"lacks": "it has no such type"}},
                       {"copy": timed(size / 1e4)}) for size in (8, 64, 4096, MI)]

    def test_the_table_has_a_line_a_size_and_no_empty_column(self):
        table = report.tables(self.records(), ["tutti", "openmpi", "gloo"]).splitlines()
        self.assertEqual(len(table), 2 + 4)
        self.assertIn("openmpi", table[1])
        self.assertNotIn("gloo", table[1])
        self.assertNotIn("stream", table[1])
        self.assertRegex(table[4], r"4 KiB +64 us +128 us +10 % +openmpi +0\.5 +0\.5 ")
        self.assertEqual(report.notes(self.records()), ["gloo: all_reduce float32: it has no such type"])

    def test_wrong_data_is_marked_and_told(self):
        records = [record(8, {"tutti": timed(1), "bad": timed(1, wrong=2, sentence="element 7 is 1")})]
        self.assertIn("1 us!", report.tables(records, ["tutti", "bad"]))
        self.assertIn("WRONG DATA", report.notes(records)[0])

    def test_the_plot_is_well_formed_and_its_curves_are_inside(self):
        drawn = ElementTree.fromstring(plots.plot("a <title>", "here & now", self.records(), ["tutti", "openmpi", "gloo"]))
        name = "{http://www.w3.org/2000/svg}"
        curves = drawn.findall(name + "polyline")
        self.assertEqual(len(curves), 4)  # two libraries, M, a ratio
        for curve in curves:
            for point in curve.get("points").split():
                x, y = map(float, point.split(","))
                self.assertTrue(0 < x < float(drawn.get("width")) and 0 < y < float(drawn.get("height")), point)
        self.assertIn("openmpi", [text.text for text in drawn.findall(name + "text")])

    def test_a_single_size_has_no_plot(self):
        self.assertEqual(plots.plot("t", "s", self.records()[:1], ["tutti"]), "")

    def test_what_is_saved_can_be_read_back(self):
        about = {"processor": "p", "cpus": 2, "date": "2026-01-01", "commit": "c"}
        with tempfile.TemporaryDirectory() as folder:
            report.save(folder, "name", about, self.records(), "text", ["tutti", "openmpi"])
            with open(os.path.join(folder, "name.json")) as file:
                self.assertEqual(json.load(file)["records"], self.records())
            self.assertEqual(sorted(name.rsplit(".", 1)[1] for name in os.listdir(folder)), ["json", "svg", "txt"])

    def test_plots_are_named_by_what_is_not_usual(self):
        about = {"processor": "p", "cpus": 2, "date": "2026-01-01", "commit": "c"}
        for changes, ends in (({}, "-usual.svg"), ({"in_place": True}, "-usual-in-place.svg"),
                              ({"in_place": True, "offset": 4}, "-usual-in-place-offset-4.svg")):
            with tempfile.TemporaryDirectory() as folder:
                report.save(folder, "name", about, [{**r, **changes} for r in self.records()], "text", ["tutti", "openmpi"])
                plot, = (name for name in os.listdir(folder) if name.endswith(".svg"))
                self.assertTrue(plot.endswith(ends), plot)


class Turns(unittest.TestCase):
    """The conductor with ranks that pretend."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-compare-test-")
        self.addCleanup(self.folder.cleanup)
        self.started = []

    def ranks(self, name, behaviour, deadline=20):
        folder = os.path.join(self.folder.name, name)
        os.mkdir(folder)
        commands = [[sys.executable, os.path.join(HERE, "pretender.py"), behaviour, folder, str(r)] for r in range(2)]
        ranks = processes.Ranks(name, commands, dict(os.environ), 2, folder, deadline)
        self.started += ranks.pids.values()
        self.addCleanup(ranks.kill)
        return ranks

    def trial(self, name, behaviour, effort, **more):
        trial = rounds.Trial(name, self.ranks(name, behaviour, **more))
        return trial, trial.ready(case().words(2), 1, effort, case(), 1)

    def gone(self):
        return all(processes.parent_of(pid) is None for pid in self.started)

    def test_contenders_take_turns(self):
        effort = rounds.Effort(rounds=6, batch_seconds=1e-5)
        trials = [self.trial(name, "steady", effort)[0] for name in "abc"]
        order = os.path.join(self.folder.name, "order")
        os.remove(order)  # the estimates
        rounds.interleave(trials, effort, lambda *_: self.fail("nobody dies"))
        with open(order) as file:
            self.assertEqual(file.read().split(), list("abc") * 6)
        for trial in trials:
            trial.end(2, case())
            self.assertAlmostEqual(trial.record["median_us"], 1.0001, 6)  # 1000 ns an operation, and rank 1's 1 ns a batch of 10
            trial.ranks.quit()
        self.assertTrue(self.gone())

    def test_ranks_share_a_session_so_that_yielding_reaches_the_others(self):
        ranks = self.ranks("a", "steady")
        self.assertEqual({os.getsid(pid) for pid in ranks.pids.values()}, {os.getsid(0)})
        self.assertNotIn(os.getpgid(0), {os.getpgid(pid) for pid in ranks.pids.values()})

    def test_one_that_dies_is_named_with_its_last_words_and_the_others_go_on(self):
        effort, lost = rounds.Effort(rounds=5, batch_seconds=1e-5), []
        steady, mortal = self.trial("steady", "steady", effort)[0], self.trial("mortal", "dies", effort)[0]
        trials = [mortal, steady]
        rounds.interleave(trials, effort, lambda trial, death: lost.append((trial.name, str(death))))
        self.assertEqual(lost[0][0], "mortal")
        self.assertIn("something went badly wrong", lost[0][1])
        self.assertEqual((len(steady.times), trials), (5, [steady]))

    def test_a_silent_one_is_given_up_after_the_deadline(self):
        effort, lost = rounds.Effort(rounds=5, batch_seconds=1e-5), []
        silent = self.trial("mute", "silent", effort, deadline=1)[0]
        begin = time.monotonic()
        rounds.interleave([silent], effort, lambda trial, death: lost.append(death))
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual((len(lost), lost[0].status), (1, formatting.LOST))
        silent.ranks.kill()
        self.assertTrue(self.gone())

    def test_one_that_never_begins_is_given_up_and_leaves_no_process(self):
        with self.assertRaisesRegex(processes.Died, "did not begin within 1 s"):
            self.ranks("stubborn", "stubborn", deadline=1)
        self.assertEqual([p for p in processes.descendants(os.getpid())], [])

    def test_one_that_begins_badly_is_named_and_leaves_no_process(self):
        for behaviour, sentence in (("quitter", "ended before its ranks had begun"), ("mumbler", "said nothing within 1 s"),
                                    ("babbler", "hello there")):
            begin = time.monotonic()
            with self.assertRaisesRegex(processes.Died, sentence):
                self.ranks(behaviour, behaviour, deadline=1 if behaviour == "mumbler" else 60)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertEqual(processes.descendants(os.getpid()), [])

    def test_a_launcher_that_is_gone_is_named(self):
        with self.assertRaisesRegex(processes.Died, "nowhere could not be started.*no-such-launcher"):
            processes.Ranks("nowhere", [["no-such-launcher"]], dict(os.environ), 2, self.folder.name, 5)

    def test_a_long_temporary_folder_leaves_room_for_a_sockets_name(self):
        usual = tempfile.tempdir
        self.addCleanup(setattr, tempfile, "tempdir", usual)
        tempfile.tempdir = os.path.join(self.folder.name, "x" * 90)
        os.mkdir(tempfile.tempdir)
        with processes.Folder() as folder:
            self.assertLess(len(os.path.join(folder, "12345678", "control")), 108)
        self.assertFalse(os.path.exists(folder))

    def test_one_that_lacks_it_stands_aside(self):
        trial, ready = self.trial("poor", "lacking", rounds.Effort())
        self.assertFalse(ready)
        self.assertEqual(trial.record, {"lacks": "it can do nothing"})

    def test_wrong_elements_are_counted_over_both_checks(self):
        effort = rounds.Effort(rounds=5, batch_seconds=1e-5)
        trial, _ = self.trial("liar", "wrong", effort)
        rounds.interleave([trial], effort, lambda *_: self.fail("nobody dies"))
        trial.end(2, case())
        self.assertEqual((trial.record["wrong"], trial.record["sentence"]), (6, "element 7 is 1"))


class Networks(unittest.TestCase):
    def test_names(self):
        for name in ("host", "veth", "veth:1G", "veth:500M"):
            self.assertTrue(networks.valid(name), name)
        for name in ("", "veth:", "veth:1", "eth0", "veth:1G "):
            self.assertFalse(networks.valid(name), name)


class Signals(unittest.TestCase):
    def setUp(self):
        for each in signals.ENDING:  # as the tests may run under nohup
            self.addCleanup(signal.signal, each, signal.signal(each, signal.SIG_DFL))

    def test_the_first_alone_is_raised_and_only_between_begin_and_hold(self):
        with signals.Caught() as caught:
            caught.begin()
            with self.assertRaises(signals.Ended) as ended:
                os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            self.assertEqual((ended.exception.number, caught.number), (signal.SIGTERM, signal.SIGTERM))
        with signals.Caught() as caught:
            os.kill(os.getpid(), signal.SIGHUP)
            with self.assertRaises(signals.Ended):
                caught.begin()
        with signals.Caught() as caught:
            caught.begin()
            caught.hold()
            os.kill(os.getpid(), signal.SIGTERM)
            self.assertEqual(caught.number, signal.SIGTERM)

    def test_what_was_ignored_stays_ignored_and_what_was_not_is_put_back(self):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        before = [signal.getsignal(each) for each in signals.ENDING]
        with signals.Caught() as caught:
            caught.begin()
            os.kill(os.getpid(), signal.SIGHUP)
            self.assertIsNone(caught.number)
        self.assertEqual([signal.getsignal(each) for each in signals.ENDING], before)

    def test_an_interrupt_while_its_modules_are_read_is_no_traceback(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "ctypes.py"), "w") as module:  # one that it imports
                module.write("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
            for name in ("compare", "reality"):
                done = subprocess.run([sys.executable, os.path.join(ROOT, "perf", name), "--help"], capture_output=True, timeout=20,
                                      env={**os.environ, "PYTHONPATH": folder}, preexec_fn=mind_signals, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (-signal.SIGINT, b"", b""))


class Alone(unittest.TestCase):
    """The whole command, with Tutti and the limits alone."""

    def setUp(self):
        if BUILD is None or not os.path.exists(os.path.join(BUILD, "perf", "compare-tutti")):
            self.skipTest("no build folder with Tutti's program was given")
        self.tool = [sys.executable, os.path.join(ROOT, "perf", "compare"), "--build", BUILD, "--peers", "none"]

    def test_every_collective_is_timed_and_right(self):
        done = subprocess.run([*self.tool, "all", "--division", "all", "--sizes", "1K", "--ranks", "2,3", "--rounds", "5", "--batch-time", "0.2",
                               "--json"],
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        records = [json.loads(line) for line in done.stdout.splitlines()]
        more = (len(cases.DIVISIONS) - 1) * len(cases.V_VARIANTS)
        self.assertEqual(len(records), 2 * (len(cases.COLLECTIVES) + more))
        for r in records:
            tutti = r["contenders"]["tutti"]
            self.assertEqual((tutti["wrong"], tutti["rounds"]), (0, 5), r)
            self.assertGreater(tutti["median_us"], 0)

    def test_buffers_begin_behind_a_page_by_what_is_asked(self):
        for asked, expected in (([], 0), (["--offset", "4"], 4), (["--offset", "4092"], 4092)):
            done = subprocess.run([*self.tool, "all_gather", "--sizes", "8,64K", "--memory", "host,registered", "--inputs", "usual,fresh",
                                   "--rounds", "5", "--batch-time", "0.2", "--json", *asked],
                                  capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for record in map(json.loads, done.stdout.splitlines()):
                for name, contender in record["contenders"].items():
                    self.assertEqual(contender["behind_page"], 2 * [[expected, expected]], (record["bytes"], name))

    def test_plots_and_tables_are_written_and_say_that_nobody_else_took_part(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*self.tool, "--sizes", "8,1K,64K", "--inputs", "usual,fresh", "--rounds", "5", "--memory",
                                   "host,registered", "--output", folder], capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("No peer took part", done.stdout)
            self.assertEqual(sorted(name.rsplit(".", 1)[1] for name in os.listdir(folder)), ["json", "svg", "svg", "txt"])

    def test_a_rank_program_names_the_argument_that_it_does_not_take(self):
        program = os.path.join(BUILD, "perf", "compare-tutti")
        good = ["--rank", "0", "--ranks", "1", "--folder", "/nosuch", "--control", "/nosuch"]
        for bad, name in ((["--rank", "x"], "--rank"), (["--ranks", ""], "--ranks"), (["--cpus", "0,1x"], "--cpus"), (["--set", "spin"], "--set"),
                          (["--transport"], "--transport"), (["--speed", "1"], "--speed"), ([], "cannot reach the conductor")):
            done = subprocess.run([program, *good, *bad], capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(done.returncode, 2, bad)
            self.assertTrue(done.stderr.startswith(name), (bad, done.stderr))
            self.assertEqual(done.stderr.count("\n"), 1, bad)

    def test_an_algorithm_that_there_is_not_is_wrong_use(self):
        done = subprocess.run([*self.tool, "--sizes", "8", "--rounds", "5", "--tutti", "algorithm=bogus"], capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual(done.returncode, formatting.WRONG_USE, done.stderr)
        self.assertIn("bogus", done.stderr)

    def ended_by(self, number, *arguments, twice=False):
        """A run of many seconds that is sent the signal once ranks are there; what it leaves is looked at."""
        with tempfile.TemporaryDirectory() as folder:
            with started([*self.tool, "--sizes", "64M", "--rounds", "1000", "--case-time", "100", *arguments], folder) as run:
                end = time.monotonic() + 60
                while time.monotonic() < end and sum(command_of(pid).endswith("compare-tutti") for pid in processes.descendants(run.pid)) < 2:
                    time.sleep(.05)
                ours = processes.descendants(run.pid)
                self.assertGreaterEqual(len(ours), 2)
                self.assertEqual(len(spaces_of(run.pid)), 2 if "--network" in arguments else 0)
                run.send_signal(number)
                if twice:
                    time.sleep(.02)
                    run.send_signal(number)
                said = run.communicate(timeout=60)[1]
            self.assertEqual(run.returncode, -number)
            self.assertRegex(said, r"\Aperf/compare: interrupted; [^\n]*\n\Z")
            self.assertEqual([pid for pid in ours if processes.parent_of(pid) is not None], [])
            self.assertEqual((os.listdir(folder), spaces_of(run.pid)), ([], []))

    def test_a_signal_ends_it_and_leaves_no_process_and_no_file(self):
        for number in signals.ENDING:
            self.ended_by(number)

    def test_a_second_signal_does_not_keep_it_from_clearing_away(self):  # as `timeout` sends, and who is impatient
        self.ended_by(signal.SIGINT, twice=True)

    @unittest.skipUnless(spaces_can_be_made(), "takes root and iproute2")
    def test_a_signal_leaves_no_namespace(self):
        for number in (signal.SIGHUP, signal.SIGTERM):
            self.ended_by(number, "--transport", "tcp", "--network", "veth:1G")

    def test_an_output_that_takes_no_more_is_one_sentence_and_exit_1(self):
        tool = shlex.join(self.tool) + " --sizes 8 --rounds 5 --batch-time 0.2"
        for words_, named in ((">/dev/full", "stdout"), ("--json >/dev/full", "stdout"), (">&-", "stdout"), ("--json >&-", "stdout"),
                              ("--json /dev/full", "/dev/full"), ("--version >/dev/full", "stdout"), ("--help >/dev/full", "stdout")):
            done = subprocess.run(["sh", "-c", f"{tool} {words_}"], capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, formatting.FAILED, (words_, done.stderr))
            self.assertRegex(done.stderr, rf"\Aperf/compare: [^\n]*{named} cannot be written: [^\n]*\n\Z", words_)
            if words_ == "--json /dev/full":
                self.assertIn("No peer took part", done.stdout)  # what was measured is not lost for that

    def test_a_reader_that_goes_ends_it_by_sigpipe_without_a_word(self):
        for more in ([], ["--json"]):
            with tempfile.TemporaryDirectory() as folder:
                beside = os.path.join(folder, "out")
                reads, writes = os.pipe()
                os.close(reads)
                done = subprocess.run([*self.tool, "--sizes", "8", "--rounds", "5", "--batch-time", "0.2", "--output", beside, *more],
                                      stdout=writes, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": folder}, timeout=100, check=False)
                os.close(writes)
                self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))
                self.assertEqual(os.listdir(folder), ["out"])
                self.assertEqual(len(os.listdir(beside)), 2)  # a file that was asked for is not the reader's matter

    def test_a_rank_of_tuttis_that_is_killed_is_named_and_exit_is_4(self):
        run = subprocess.Popen([*self.tool, "--sizes", "1M,64K", "--rounds", "100000", "--case-time", "4"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        end, victims = time.monotonic() + 60, []
        while time.monotonic() < end and len(victims) < 2:
            time.sleep(.05)
            victims = [pid for pid in processes.descendants(run.pid) if command_of(pid).endswith("compare-tutti")]
        time.sleep(2)
        os.kill(victims[1], signal.SIGKILL)
        out, said = run.communicate(timeout=100)
        self.assertEqual(run.returncode, formatting.LOST, said)
        self.assertRegex(said, "tutti (lost rank|failed on rank)")
        self.assertIn("tutti", report.notes([{"collective": "c", "type": "t", "contenders": {"tutti": {"failed": "it"}}}])[0])

    def test_killed_outright_it_leaves_no_process(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)  # nobody else is left to do it
        run = subprocess.Popen([*self.tool, "--sizes", "64M", "--rounds", "1000", "--case-time", "100"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder.name})
        end = time.monotonic() + 60
        while time.monotonic() < end and len(processes.descendants(run.pid)) < 8:
            time.sleep(.05)
        time.sleep(.5)
        ours = processes.descendants(run.pid)
        run.kill()
        run.wait()
        end = time.monotonic() + 10
        while time.monotonic() < end and any(os.path.exists(f"/proc/{pid}/exe") for pid in ours):
            time.sleep(.05)
        self.assertEqual([pid for pid in ours if os.path.exists(f"/proc/{pid}/exe")], [])


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        BUILD = sys.argv.pop(1)
    unittest.main()

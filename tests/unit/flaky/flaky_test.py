"""scripts/flaky: which cases it runs how often, what it reports of those that fail, crash or hang, and that it leaves nothing.

Usage: flaky_test.py
"""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
FLAKY = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "scripts", "flaky")
PROGRAM = os.path.join(HERE, "pretender.py")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Flaky(unittest.TestCase):
    def setUp(self):
        self.place = self.enterContext(tempfile.TemporaryDirectory())
        self.counts = os.path.join(self.place, "counts")
        os.mkdir(self.counts)
        tests = {"pretender": (f"{sys.executable} {PROGRAM} {self.counts}", "core;quick"), "other": ("true", "quick"),
                 "unlabelled": (f"{sys.executable} {PROGRAM} {self.counts}", "long")}
        # CTest's own files name no interpreter, so a program of one file stands in front of it.
        with open(os.path.join(self.place, "CTestTestfile.cmake"), "w") as file:
            for name, (command, labels) in tests.items():
                program = os.path.join(self.place, name)
                with open(program, "w") as script:
                    script.write(f"#!/bin/sh\n# {'gtest_list_tests' if 'pretender' in command else ''}\nexec {command} \"$@\"\n")
                os.chmod(program, 0o755)
                file.write(f'add_test([=[{name}]=] "{program}")\nset_tests_properties([=[{name}]=] PROPERTIES LABELS "{labels}")\n')

    def command(self, *options):
        return [sys.executable, FLAKY, "--build", self.place, *options]

    def run_it(self, *options, **environment):
        done = subprocess.run(self.command(*options), capture_output=True, text=True, timeout=120,
                              env={**os.environ, **environment}, check=False)
        return done.returncode, done.stdout, done.stderr

    def runs_of(self, case):
        path = os.path.join(self.counts, case)
        return os.path.getsize(path) if os.path.exists(path) else 0

    def test_every_short_case_runs_as_often_as_asked_in_every_mode(self):
        code, out, err = self.run_it("--runs", "8", "--filter", "Good")
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.runs_of("Good_Passes"), 1 + 4 * 8)
        self.assertEqual(self.runs_of("Good_Skips"), 1)
        self.assertEqual(self.runs_of("Good_Takes_Long_0"), 1)
        self.assertEqual(self.runs_of("Bad_Fails"), 0)
        for told in ("no GoogleTest programs: other", "Good.Skips: skipped", "Long/0: 1000 ms", "about", "No case failed"):
            self.assertIn(told, out)
        self.assertNotIn("unlabelled", out)

    def test_one_that_fails_is_counted_and_its_first_output_kept(self):
        code, out, _ = self.run_it("--runs", "6", "--modes", "alone")
        self.assertEqual(code, 1)
        self.assertIn("alone  pretender  Bad.Fails  2 of 6", out)
        with open(os.path.join(self.place, "flaky", "flaky-alone-pretender-Bad.Fails.txt")) as kept:
            text = kept.read()
        self.assertIn("a number was 7", text)
        self.assertEqual(text.count("[ RUN"), 1)
        self.assertEqual(self.runs_of("Good_Passes"), 7)

    def test_the_output_of_an_earlier_run_does_not_stay(self):
        self.run_it("--runs", "3", "--modes", "alone")
        self.run_it("--runs", "1", "--modes", "alone", "--filter", "Passes")
        self.assertEqual(os.listdir(os.path.join(self.place, "flaky")), [])

    def test_one_that_crashes_or_hangs_is_named_and_the_others_run_on(self):
        for case, told in (("Bad.Crashes", "status -6"), ("Bad.Hangs", "silent for 1 s")):
            with self.subTest(case):
                before = self.runs_of("Good_Passes")
                code, out, _ = self.run_it("--runs", "4", "--modes", "alone", "--filter", "Passes|" + case, "--deadline", "1",
                                           PRETEND=case)
                self.assertEqual(code, 1)
                self.assertIn(f"{case}  1 of 4", out)
                with open(os.path.join(self.place, "flaky", f"flaky-alone-pretender-{case}.txt")) as kept:
                    self.assertIn(told, kept.read())
                self.assertGreaterEqual(self.runs_of("Good_Passes") - before, 1 + 4)
        with open(os.path.join(self.counts, "sleeper")) as file:
            self.assertFalse(alive(int(file.read())), "a test's own child lives on")

    def test_a_signal_ends_it_and_all_that_it_has_started(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                with contextlib.suppress(OSError):
                    os.remove(os.path.join(self.counts, "sleeper"))
                run = subprocess.Popen(self.command("--runs", "4", "--modes", "busy", "--filter", "Hangs"), text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PRETEND": "Bad.Hangs"},
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                end = time.monotonic() + 60
                while not os.path.exists(os.path.join(self.counts, "sleeper")) and time.monotonic() < end:
                    time.sleep(0.02)
                started = self.children_of(run.pid)
                self.assertGreater(len(started), 1, "the program and the busy loops")
                run.send_signal(number)
                _, err = run.communicate(timeout=60)
                self.assertEqual(run.returncode, 128 + number, err)
                for pid in started:
                    self.assertFalse(alive(pid), pid)
                os.remove(os.path.join(self.counts, "Bad_Hangs"))

    @staticmethod
    def children_of(pid):
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry))
        return found

    def test_the_plan_alone_runs_each_case_once(self):
        code, out, _ = self.run_it("--list", "--filter", "Passes")
        self.assertEqual(code, 0)
        self.assertIn("The other 1 take", out)
        self.assertEqual(self.runs_of("Good_Passes"), 1)

    def test_wrong_use_is_told(self):
        for options, told in ((("--runs", "0"), "no positive"), (("--modes", "alone,asleep"), "asleep"), (("--filter", "("), "regular"),
                              (("--build", "/nowhere"), "/nowhere"), (("--filter", "NoSuch"), "no case is left")):
            with self.subTest(options):
                code, _, err = self.run_it(*options)
                self.assertEqual(code, 2)
                self.assertIn(told, err)


if __name__ == "__main__":
    unittest.main()

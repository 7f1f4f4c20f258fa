"""perf/reality: what it refuses, and that it leaves nothing behind however it ends.

Usage: reality_test.py [BUILD_FOLDER]: with a build folder and as root, a run that is ended, too.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TOOL = [sys.executable, "-B", os.path.join(ROOT, "perf", "reality")]
sys.dont_write_bytecode = True

from leftovers import spaces_can_be_made, spaces_of, started  # noqa: E402

BUILD = None
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


class Refusals(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run([*TOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), (arguments, done.stderr))
        self.assertRegex(done.stderr, r"\Aperf/reality: [^\n]*\n\Z")
        return done.stderr

    def test_each_wrong_word_is_one_sentence_that_names_its_option(self):
        for arguments in (["--ranks", "x"], ["--ranks", "2"], ["--ranks", "5"], ["--ranks", ""], ["--rate", "x"], ["--rate", "-5"],
                          ["--rate", "0"], ["--rate", "nan"], ["--rate", "1,2,3"], ["--rounds", "0"], ["--rounds", "x"],
                          ["--shapes", "odd"], ["--frobnicate"]):
            self.assertTrue(self.refused(*arguments).startswith(f"perf/reality: {arguments[0]} was given")
                            or arguments[0] == "--frobnicate", arguments)

    @unittest.skipUnless(os.path.exists(ALLOWED), "the system does not say which congestion controls there are")
    def test_a_congestion_control_that_there_is_not_is_told_with_those_that_there_are(self):
        with open(ALLOWED, encoding="utf-8") as file:
            self.assertIn(", ".join(file.read().split()), self.refused("--congestion", "nosuch"))


@unittest.skipUnless(spaces_can_be_made(), "takes root and iproute2")
class Namespaces(unittest.TestCase):
    def setUp(self):
        if BUILD is None or not os.path.exists(os.path.join(BUILD, "bin", "tutti-perf")):
            self.skipTest("no build folder with tutti-perf was given")

    def test_a_signal_ends_it_and_leaves_no_namespace(self):
        # The usual congestion control, whatever the machine has, so that every namespace comes to be.
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with tempfile.TemporaryDirectory() as folder:
                with started([*TOOL, "--build", BUILD, "--ranks", "4", "--rounds", "1", "--shapes", "equal"], folder) as run:
                    end = time.monotonic() + 60
                    while time.monotonic() < end and run.poll() is None and len(spaces_of(run.pid)) < 6:
                        time.sleep(.02)
                    self.assertEqual(len(spaces_of(run.pid)), 6)
                    time.sleep(1 if number == signal.SIGTERM else 0)  # amid measuring, and amid building
                    run.send_signal(number)
                    said = run.communicate(timeout=60)[1]
                self.assertEqual(run.returncode, -number, said)
                self.assertRegex(said, r"\Aperf/reality: interrupted; [^\n]*\n\Z")
                self.assertEqual((os.listdir(folder), spaces_of(run.pid)), ([], []))


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        BUILD = sys.argv.pop(1)
    unittest.main()

"""scripts/gpu-check: what it packs, runs, skips and judges; a rehearsal of both parts on the stand-in driver.

Usage: gpu_check_test.py BUILD
"""
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts", "gpu-check")
BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else None


def load():
    """The script as a module of its own."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    sys.modules["gpu_check"] = module  # for its dataclasses
    loader.exec_module(module)
    return module


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run_script(*arguments, script=SCRIPT, timeout=120, **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("OUT", "LD_LIBRARY_PATH")}
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=timeout, check=False,
                          env={**clean, **environment})
    return done.returncode, done.stdout, done.stderr


class Pretended(unittest.TestCase):
    """A pack whose programs only pretend."""

    def setUp(self):
        self.place = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = os.path.join(self.place, "pack")
        self.results = os.path.join(self.place, "results")
        for name in ("bin/tutti-perf", "bin/tutti-doctor", "tests/gpu_figures", "tests/pretended_test"):
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copy(os.path.join(HERE, "pretender.py"), path)
            os.chmod(path, 0o644)  # as after a copy that loses it
        with open(os.path.join(self.folder, "manifest.json"), "w") as file:
            json.dump({"commit": "0123456789abcdef", "changed": False, "packed": "2026-01-01T00:00:00Z", "missing": {}, "files": {},
                       "tests": [{"name": "pretended_test", "program": "tests/pretended_test", "timeout": 60,
                                  "long": False, "arguments": [], "environment": {}}]}, file)

    def part(self, number, *options, **environment):
        code, out, err = run_script("--part", str(number), "--folder", self.folder, "--results", self.results, *options, **environment)
        found = {}
        if os.path.isdir(self.results):
            names = [name for name in os.listdir(self.results) if name.endswith(f"-part{number}.json")]
            self.assertEqual(len(names), 1)
            self.assertRegex(names[0], r"^gpu-\d{4}-\d\d-\d\d-pretended-gpu-9-part\d\.json$")
            with open(os.path.join(self.results, names[0])) as file:
                found = json.load(file)
            with open(os.path.join(self.results, names[0][:-5] + ".txt")) as file:
                self.assertIn(file.read().strip().splitlines()[-1], out)
        return code, found, out, err

    def test_a_part_2_measures_and_judges(self):
        code, found, out, err = self.part(2, PRETEND_REFUSED="broadcast")
        self.assertEqual((code, err), (1, ""), out)
        self.assertEqual([item["name"] for item in found["items"] if item["outcome"] == "lacks"],
                         ["fold of 2 inputs, int8", "fold of 8 inputs, int8", "broadcast of 2 ranks, all sizes",
                          "broadcast of 8 ranks, all sizes"])
        self.assertEqual({item["outcome"] for item in found["items"]}, {"passed", "lacks"})
        goals = {goal["goal"]: goal for goal in found["goals"]}
        verdict = lambda words: next((g["verdict"], g.get("worst")) for name, g in goals.items() if words in name)  # noqa: E731
        self.assertEqual(verdict("folds of 32"), ("missed", 0.905))
        self.assertEqual(verdict("folds of 16"), ("met", 0.905))
        self.assertEqual(verdict("folds of 8 bits"), ("not measured", None))
        self.assertEqual(verdict("all_reduce of 8"), ("met", 0.81))
        self.assertEqual(verdict("8 B with"), ("met", 2.8))
        self.assertEqual(verdict("replay"), ("missed", 1.2))
        self.assertEqual(verdict("abort"), ("met", 4.0))
        self.assertEqual(found["device"]["device"], "Pretended GPU 9")
        self.assertIn("not measured  folds of 8 bits", out)

    def test_b_nothing_is_judged_in_a_rehearsal(self):
        code, out, _ = run_script("--part", "2", "--folder", self.folder, "--results", self.results, "--rehearse")
        self.assertEqual(code, 0, out)
        with open(os.path.join(self.results, next(n for n in os.listdir(self.results) if n.endswith("-rehearsal.json")))) as file:
            verdicts = {goal["verdict"] for goal in json.load(file)["goals"]}
        self.assertEqual(verdicts, {"not judged", "not measured"})

    def test_wrong_elements_are_failures(self):
        code, found, _, _ = self.part(2, PRETEND_WRONG="3")
        self.assertEqual(code, 1)
        failed = [item for item in found["items"] if item["outcome"] == "failed"]
        self.assertTrue(failed and all("wrong elements" in item["why"] for item in failed))

    def test_what_no_time_is_left_for_is_skipped_by_name(self):
        begun = time.monotonic()
        code, found, out, _ = self.part(2, "--budget", "3", PRETEND_SLOW="0.8")
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(code, 0, out)
        outcomes = {item["name"]: item for item in found["items"]}
        self.assertEqual(outcomes["copy within the device"]["outcome"], "passed")
        self.assertIn("no time was left", outcomes["all_reduce of 8 ranks, all sizes"]["why"])

    def test_a_machine_without_a_driver_is_refused(self):
        code, found, out, err = self.part(1, PRETEND_DEVICE="none")
        self.assertEqual((code, found, out), (2, {}, ""))
        self.assertIn("This machine has no CUDA driver", err)

    def test_a_device_that_does_not_answer_fails(self):
        code, _, _, err = self.part(1, PRETEND_DEVICE="mute")
        self.assertEqual(code, 1)
        self.assertIn("does not answer: a word of the driver's", err)

    def test_a_pack_that_is_not_there_or_not_whole_is_refused(self):
        code, _, err = run_script("--part", "1", "--folder", os.path.join(self.place, "nowhere"))
        self.assertEqual(code, 2)
        self.assertIn("make one where the repository and its build are", err)
        os.remove(os.path.join(self.folder, "tests", "pretended_test"))
        code, _, err = run_script("--part", "1", "--folder", self.folder)
        self.assertEqual(code, 2)
        self.assertIn("lacks tests/pretended_test", err)

    def test_cases_that_crash_fail_or_hang_keep_no_other_from_its_turn(self):
        script = load()
        program = os.path.join(self.folder, "tests", "pretended_test")
        os.chmod(program, 0o755)
        names = script.names_of(program)
        self.assertEqual(len(names), 6)  # the disabled one is none
        cases = script.Cases(program, silence_s=1)
        self.assertEqual(cases.run(names, 60), [])
        self.assertEqual(cases.passed, ["Good.Passes", "Good.PassesLast"])
        self.assertEqual(cases.skipped, {"Good.Skips": "a real driver does not promise this"})
        self.assertEqual(sorted(cases.failed), ["Bad.Crashes", "Bad.Fails", "Bad.Hangs"])
        self.assertIn("signal 6", cases.failed["Bad.Crashes"])
        self.assertIn("a number was 7", cases.failed["Bad.Fails"])
        self.assertIn("printed nothing for 1 s", cases.failed["Bad.Hangs"])
        with open(os.path.join(self.folder, "tests", "sleeper")) as file:
            self.assertFalse(alive(int(file.read())))
        self.assertEqual(cases.alone(30), {"Bad.Crashes": "fails", "Bad.Fails": "fails", "Bad.Hangs": "fails"})

    def test_cases_whose_time_is_over_had_no_turn(self):
        script = load()
        program = os.path.join(self.folder, "tests", "pretended_test")
        os.chmod(program, 0o755)
        cases = script.Cases(program)
        self.assertEqual(cases.run(["Good.Passes", "Bad.Hangs", "Good.PassesLast"], 1), ["Bad.Hangs", "Good.PassesLast"])
        self.assertEqual((cases.passed, cases.failed), (["Good.Passes"], {}))

    def test_more_cases_than_an_argument_holds_are_run_in_parts(self):
        script = load()
        script.LONGEST_FILTER = 24
        self.assertEqual(script.prefix_of(["Good.Passes", "Good.Skips", "Good.PassesLast"]), ["Good.Passes", "Good.Skips"])
        self.assertEqual(script.prefix_of(["Good.Passes" * 9, "Good.Skips"]), ["Good.Passes" * 9])
        program = os.path.join(self.folder, "tests", "pretended_test")
        os.chmod(program, 0o755)
        cases = script.Cases(program)
        self.assertEqual(cases.run(["Good.Passes", "Good.Skips", "Bad.Fails", "Good.PassesLast"], 60), [])
        self.assertEqual((cases.passed, list(cases.failed)), (["Good.Passes", "Good.PassesLast"], ["Bad.Fails"]))

    def test_a_signal_ends_what_runs_and_leaves_what_was_found(self):
        child = subprocess.Popen([sys.executable, SCRIPT, "--part", "2", "--folder", self.folder, "--results", self.results],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PRETEND_SLOW": "2"})
        for line in child.stdout:
            if line.startswith("passed") and "copy" in line:
                break
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 128 + signal.SIGTERM, out + err)
        with open(os.path.join(self.results, next(n for n in os.listdir(self.results) if n.endswith(".json")))) as file:
            self.assertEqual([item["name"] for item in json.load(file)["items"]], ["copy within the device"])

    def test_the_least_traffic_is_that_of_the_ranks_buffers(self):
        script = load()
        row = {"ranks": 4, "bytes": 100}
        self.assertEqual(script.traffic({**row, "collective": "all_reduce"}), 800)
        self.assertEqual(script.traffic({**row, "collective": "all_to_all"}), 800)  # 2 n n blocks of 25
        self.assertEqual(script.traffic({**row, "collective": "all_gather"}), 500)  # n n + n blocks of 25
        self.assertEqual(script.traffic({**row, "collective": "broadcast"}), 500)


class Packing(unittest.TestCase):
    def setUp(self):
        self.place = self.enterContext(tempfile.TemporaryDirectory())
        self.build = os.path.join(self.place, "build")
        os.makedirs(os.path.join(self.build, "tests"))

    def pack(self, output="gpu-check"):
        return run_script("--pack", "--build", self.build, "--output", os.path.join(self.place, output))

    def configure(self):
        with open(os.path.join(self.build, "CMakeCache.txt"), "w") as file:
            file.write("TUTTI_NVCC:FILEPATH=TUTTI_NVCC-NOTFOUND\n")
        program = os.path.join(self.build, "tests", "cuda_pretended_test")
        other = os.path.join(self.build, "tests", "host_test")
        with open(os.path.join(self.build, "CTestTestfile.cmake"), "w") as file:
            kept = 'ENVIRONMENT "LD_LIBRARY_PATH=/x/standin;STANDIN_DEVICES=2;WHOLE=1" '
            for name, environment in ((program, kept), (other, "")):
                file.write(f'add_test([=[{os.path.basename(name)}]=] "{name}")\n'
                           f'set_tests_properties([=[{os.path.basename(name)}]=] PROPERTIES {environment}LABELS "cuda")\n')

    def test_what_is_no_build_is_refused(self):
        code, _, err = self.pack()
        self.assertEqual(code, 2)
        self.assertIn("is no build", err)

    def test_what_is_not_built_is_named(self):
        self.configure()
        for name in ("tests/cuda_pretended_test", "tests/host_test"):
            shutil.copy("/bin/true", os.path.join(self.build, name))
        code, _, err = self.pack()
        self.assertEqual(code, 2)
        self.assertIn("not built: bin/tutti-perf, bin/tutti-doctor, tests/gpu_figures;", err)
        self.assertEqual(os.listdir(self.place), ["build"])

    def test_a_folder_that_is_no_pack_is_not_replaced(self):
        self.configure()
        os.mkdir(os.path.join(self.place, "mine"))
        with open(os.path.join(self.place, "mine", "file"), "w") as file:
            file.write("kept")
        code, _, err = self.pack("mine")
        self.assertEqual(code, 2)
        self.assertIn("is no pack, and is not replaced", err)
        self.assertEqual(os.listdir(os.path.join(self.place, "mine")), ["file"])

    def test_a_pack_has_a_size_that_it_may_not_exceed(self):
        self.configure()
        for name in ("bin/tutti-perf", "bin/tutti-doctor", "tests/gpu_figures", "tests/cuda_pretended_test"):
            os.makedirs(os.path.dirname(os.path.join(self.build, name)), exist_ok=True)
            shutil.copy("/bin/true", os.path.join(self.build, name))
        output = os.path.join(self.place, "gpu-check")
        code, out, err = self.pack()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("missing: lib/tutti/libtutti_kernels.so; without it", out)
        with open(os.path.join(output, "manifest.json")) as file:
            self.assertEqual([(test["name"], test["environment"]) for test in json.load(file)["tests"]],
                             [("cuda_pretended_test", {"WHOLE": "1"})])
        with open(os.path.join(self.build, "tests", "cuda_pretended_test"), "wb") as file:
            file.truncate(61 << 20)
        code, _, err = self.pack()
        self.assertEqual(code, 1)
        self.assertIn("the largest files are tests/cuda_pretended_test (61.0)", err)
        self.assertTrue(os.path.exists(os.path.join(output, "manifest.json")))  # the one before stays
        self.assertFalse(os.path.exists(output + ".new"))


@unittest.skipIf(BUILD is None, "no build was named")
class Rehearsal(unittest.TestCase):
    """What is built, on the stand-in driver."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.pack = os.path.join(cls.place, "gpu-check")
        cls.code, cls.out, cls.err = run_script("--pack", "--build", BUILD, "--output", cls.pack)

    def rehearse(self, number):
        results = os.path.join(self.place, "out")
        standin = os.path.join(BUILD, "tests", "standin")
        environment = {"LD_LIBRARY_PATH": standin, "STANDIN_DEVICES": "3", "OUT": results}
        if not os.path.exists(os.path.join(self.pack, "lib", "tutti", "libtutti_kernels.so")):
            environment["TUTTI_MODULE_DIR"] = os.path.join(standin, "tutti")
        # From the pack alone, as on another machine.
        code, out, err = run_script("--part", str(number), "--rehearse", script=os.path.join(self.pack, "gpu-check"), **environment)
        self.assertEqual((code, err), (0, ""), out)
        with open(os.path.join(results, next(n for n in os.listdir(results) if n.endswith(f"-part{number}-rehearsal.json")))) as file:
            return json.load(file)

    def test_a_the_pack_is_whole(self):
        self.assertEqual((self.code, self.err), (0, ""), self.out)
        with open(os.path.join(self.pack, "manifest.json")) as file:
            manifest = json.load(file)
        self.assertLess(sum(manifest["files"].values()), 60 << 20)
        self.assertIn("cuda_rules_test", [test["name"] for test in manifest["tests"]])
        for path in ("gpu-check", "lib/libtutti.so.0", "bin/tutti-perf", "tests/gpu_figures", "tests/cuda_owner"):
            self.assertIn(path, manifest["files"])
        for library in os.listdir(os.path.join(self.pack, "lib")):
            self.assertFalse(library.startswith(("libc.", "libstdc++.", "libcuda.")), library)

    def test_b_part_1_runs_on_the_stand_in(self):
        found = self.rehearse(1)
        outcomes = {item["name"]: item["outcome"] for item in found["items"]}
        # On a machine that is busy no time may be left for the last ones.
        self.assertLessEqual(set(outcomes.values()), {"passed", "skipped"}, found["items"])
        self.assertEqual(outcomes["compute-sanitizer memcheck, all_reduce of 2 ranks"], "skipped")
        self.assertIn("cuda_rules_test", outcomes)
        self.assertTrue(found["device"]["standin"] and found["rehearsal"] and found["date"])

    def test_c_part_2_runs_on_the_stand_in(self):
        found = self.rehearse(2)
        self.assertEqual({item["outcome"] for item in found["items"]}, {"passed"}, found["items"])
        self.assertEqual({"copy", "launch", "release", "fold", "latency", "replay", "abort", "collective"},
                         {figure["figure"] for figure in found["figures"]})
        self.assertEqual({goal["goal"]: goal["verdict"] for goal in found["goals"] if goal["verdict"] != "not judged"},
                         {"folds of 16 bits, from 64 MiB": "not measured"})

    def test_d_without_a_driver_it_is_refused(self):
        with contextlib.suppress(OSError):
            import ctypes
            ctypes.CDLL("libcuda.so.1")
            self.skipTest("this machine has a driver")
        code, _, err = run_script("--part", "1", script=os.path.join(self.pack, "gpu-check"))
        self.assertEqual(code, 2)
        self.assertIn("has no CUDA driver", err)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""scripts/check_all.sh runs every check, whatever the others said, and tells which missed; so does bench/limits.py."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_all.sh"
PROGRAMS = ("placement forest_solver prefix planner reach leave_one_out policy_tables drift disk live paper").split()
# A program that notes how it was called, answers what floors() reads, and fails where the test asks for it.
STUB = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"$CALLS"
[ "${1-}" != bench ] || echo "{\\"prefill\\":[{\\"tokens\\":512,\\"prefill_tokens_per_s\\":$SPEED}],\\"decode_tokens_per_s\\":20}"
case " $FAILING " in *" $(basename "$0") "*) exit 1 ;; esac
case " $FAILING " in *" ${1:-nothing} "*) exit 2 ;; esac
"""
SCRIPT_STUB = """import os, sys
with open(os.environ["CALLS"], "a") as calls:
    print("NAME", *sys.argv[1:], file=calls)
def among(variable): return {*sys.argv[1:]} & {*os.environ[variable].split()}
sys.exit(1 if among("FAILING") else 33 if among("KNOWN") else 0)
"""


# What bench_accuracy prints.
TABLE = """| bf16 | 54.657 | +0.00 % | 99.66 % | 100.00 % | 0.35 % |
| int8/128 | 54.694 | {int8_above} % | {int8} % | 100.00 % | 2.18 % |
| int4/64 | 56.636 | +3.62 % | 84.63 % | 99.34 % | 17.85 % |
"""


def run(*arguments, failing="", known="", speed=200, built=()):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        names = ["scripts/install_dependencies.sh", "path/cmake", "build/release/cairn"]
        names += [f"build/release/bench/bench_{p}" for p in PROGRAMS]
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STUB)
            path.chmod(0o755)
        shutil.copy(SCRIPT, root / "scripts")
        mutations = root / "tests" / "simt" / "mutations" / "run.py"
        mutations.parent.mkdir(parents=True)
        scripts = {"soak": root / "scripts" / "soak.py", "mutations": mutations, "limits": root / "bench" / "limits.py",
                   "overhead": root / "bench" / "http_overhead.py"}
        for name, script in scripts.items():
            script.parent.mkdir(exist_ok=True)
            script.write_text(SCRIPT_STUB.replace("NAME", name))
        for path in ("tests/fixtures/demo_held_out.txt", *built):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("")
        run_peer = root / "bench" / "compare_llama_cpp" / "run.sh"
        run_peer.parent.mkdir()
        run_peer.write_text(STUB)
        run_peer.chmod(0o755)
        environment = os.environ | {
            "CALLS": str(root / "calls"), "FAILING": failing, "KNOWN": known, "SPEED": str(speed),
            "PATH": f"{root / 'path'}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", root / "scripts" / "check_all.sh", *arguments], env=environment,
                              capture_output=True, text=True)
        calls = root / "calls"
        return done, calls.read_text() if calls.exists() else ""


class CheckAll(unittest.TestCase):
    def test_every_program_runs_and_nothing_is_missed(self):
        done, calls = run("--minutes", "1", "--with-peer")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("run.sh --quick --check", calls)
        for program in PROGRAMS:
            self.assertIn(f"bench_{program}", calls)
        for measure in ("chat", "copies", "solve", "document"):
            self.assertIn(f"bench_live {measure} --model", calls)
        for check in ("kernels", "decode", "long", "busy", "start", "W1", "W2", "W5", "accuracy", "pool"):
            self.assertIn(f"limits {check} build/release/", calls)
        self.assertIn("overhead build/release/cairn --requests 1000", calls)
        self.assertIn("no check missed", done.stdout)
        self.assertNotIn("MISSED", done.stdout)

    def test_a_miss_stops_nothing_and_is_told_at_the_end(self):
        done, calls = run("--minutes", "1", failing="bench_placement solve W2", known="accuracy",
                          built=("build/compare_llama_cpp/native-1/built",))
        self.assertEqual(done.returncode, 1)
        self.assertIn("run.sh --quick --check", calls)
        self.assertIn("bench_leave_one_out", calls)
        summary = done.stdout[done.stdout.index("== summary"):]
        self.assertEqual(summary.count("MISSED"), 3)
        self.assertRegex(summary, r"\n3 of \d+ checks missed")
        self.assertRegex(summary, r"known .*likeliest tokens of fp32.*\(misses as it is known to\)")
        self.assertRegex(summary, r"MISSED .*W2, .*\(status 1\)")
        self.assertRegex(summary, r"MISSED .*placement programme.*\(status 1\)")
        self.assertRegex(summary, r"MISSED .*decoding beside a solver.*\(status 2\)")
        self.assertRegex(summary, r"met .*prefix cache")

    def test_a_speed_below_the_floor_is_missed(self):
        done, calls = run("--minutes", "1", speed=99)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("run.sh", calls)
        self.assertRegex(done.stdout, r"left out .*llama.cpp beside cairn: not built")
        self.assertRegex(done.stdout, r"MISSED .*speed of the Qwen3.5-0.8B shape")

    def test_quick_leaves_out_what_is_long_and_says_so(self):
        done, calls = run("--quick", "--minutes", "1", known="accuracy")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no check missed, but for 1 that is known to", done.stdout)
        self.assertNotRegex(calls, r"(?m)^bench_reach")
        self.assertNotIn("wallclock", calls)
        self.assertNotIn("limits long", calls)
        self.assertIn("limits decode build/release/cairn build/model-0.8b --rounds 1", calls)
        self.assertIn("limits accuracy build/release/bench/bench_accuracy build/held_out.txt", calls)
        self.assertRegex(done.stdout, r"left out .*the default rule against all others")
        self.assertIn("bench_live document", calls)

    def test_unknown_arguments_are_refused(self):
        done, calls = run("--fast")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(calls, "")


class Limits(unittest.TestCase):
    INT4 = "--known=same likeliest token, int4=82"

    def limits(self, check, printed, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text(f"#!/bin/sh\ncat <<END\n{printed}END\n")
            program.chmod(0o755)
            done = subprocess.run([sys.executable, "-B", ROOT / "bench" / "limits.py", check, program, *arguments],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def accuracy(self, *flags, int8="98.08", int8_above="+0.07"):
        return self.limits("accuracy", TABLE.format(int8=int8, int8_above=int8_above), "text", *flags)

    def test_what_a_program_says_wrongly_is_told_with_its_name(self):
        for printed in ("{}\n", "[1]\n", "no JSON\n"):
            code, said = self.limits("kernels", printed)
            self.assertEqual(code, 1)
            self.assertRegex(said, r"^limits: kernels: what \S+/program said is not understood \(\w+Error.*\)\n$")

    def test_rows_below_their_bar_miss(self):
        code, said = self.accuracy()
        self.assertEqual(code, 1)
        self.assertIn("MISSED same likeliest token, int8: 98.08 % of rows, at least 99", said)
        self.assertIn("MISSED same likeliest token, int4: 84.63 % of rows, at least 95", said)
        self.assertIn("met    perplexity of int8", said)

    def test_what_is_known_to_miss_hides_nothing_else(self):
        both = ("--known=same likeliest token, int8=97", self.INT4)
        code, said = self.accuracy(*both)
        self.assertEqual(code, 33, said)
        self.assertIn("MISSED same likeliest token, int8: 98.08 % of rows, at least 99 (known to miss, at least 97)", said)
        self.assertEqual(self.accuracy(*both, int8="96.90")[0], 1)  # worse than it is known to be
        self.assertEqual(self.accuracy(*both, int8_above="+1.01")[0], 1)
        self.assertEqual(self.accuracy(self.INT4)[0], 1)
        code, said = self.accuracy("--known=int9=5")
        self.assertEqual((code, "no row 'int9'" in said), (1, True), said)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""scripts/check_all.sh runs every check, whatever the others said, and tells which missed."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_all.sh"
PROGRAMS = ("placement forest_solver prefix planner reach leave_one_out policy_tables drift disk live paper").split()
# A program that notes how it was called, answers what floors() reads, and fails where the test asks for it.
STUB = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"$CALLS"
[ "${1-}" != bench ] || echo "{\\"prefill\\":[{\\"tokens\\":512,\\"prefill_tokens_per_s\\":$SPEED}],\\"decode_tokens_per_s\\":20}"
case " $FAILING " in *" $(basename "$0") "*) exit 1 ;; esac
case " $FAILING " in *" ${1:-nothing} "*) exit 2 ;; esac
"""


def run(*arguments, failing="", speed=200):
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
        for name, script in ("soak", root / "scripts" / "soak.py"), ("mutations", mutations):
            script.write_text(f"import sys\nprint('{name}', sys.argv[1:])\n")
        environment = os.environ | {
            "CALLS": str(root / "calls"), "FAILING": failing, "SPEED": str(speed),
            "PATH": f"{root / 'path'}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", root / "scripts" / "check_all.sh", *arguments], env=environment,
                              capture_output=True, text=True)
        calls = root / "calls"
        return done, calls.read_text() if calls.exists() else ""


class CheckAll(unittest.TestCase):
    def test_every_program_runs_and_nothing_is_missed(self):
        done, calls = run("--minutes", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for program in PROGRAMS:
            self.assertIn(f"bench_{program}", calls)
        for measure in ("chat", "copies", "solve", "document"):
            self.assertIn(f"bench_live {measure} --model", calls)
        self.assertIn("no check missed", done.stdout)
        self.assertNotIn("MISSED", done.stdout)

    def test_a_miss_stops_nothing_and_is_told_at_the_end(self):
        done, calls = run("--minutes", "1", failing="bench_placement solve")
        self.assertEqual(done.returncode, 1)
        self.assertIn("bench_leave_one_out", calls)
        summary = done.stdout[done.stdout.index("== summary"):]
        self.assertEqual(summary.count("MISSED"), 2)
        self.assertRegex(summary, r"MISSED .*placement programme.*\(status 1\)")
        self.assertRegex(summary, r"MISSED .*decoding beside a solver.*\(status 2\)")
        self.assertRegex(summary, r"met .*prefix cache")

    def test_a_speed_below_the_floor_is_missed(self):
        done, _ = run("--minutes", "1", speed=99)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"MISSED .*speed of the Qwen3.5-0.8B shape")

    def test_quick_leaves_out_what_is_long_and_says_so(self):
        done, calls = run("--quick", "--minutes", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotRegex(calls, r"(?m)^bench_reach")
        self.assertNotIn("wallclock", calls)
        self.assertRegex(done.stdout, r"left out .*the default rule against all others")
        self.assertIn("bench_live document", calls)

    def test_unknown_arguments_are_refused(self):
        done, calls = run("--fast")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(calls, "")


if __name__ == "__main__":
    unittest.main()

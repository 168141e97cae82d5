#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is promised of the CPU's speed, measured by cairn's own programs: figure and bar, exit code 1 below it.

    limits.py kernels CAIRN           int8 products of 512 rows beside the peak of VNNI
    limits.py decode CAIRN MODEL      bytes of the decoded tokens over the reads measured between them
    limits.py long CAIRN MODEL        prefill of 16,384 tokens against 512
    limits.py busy CAIRN MODEL        decode beside a program that never sleeps
    limits.py start CAIRN MODEL       from the program's start to the first answer, int8 from its cache file
    limits.py W1|W2|W5 CAIRN MODEL    prompt tokens computed
    limits.py accuracy PROGRAM TEXT   perplexity and likeliest tokens of int8 and int4 (bench_accuracy)
    limits.py pool PROGRAM            what the thread pool costs (bench_thread_pool)

Medians of --rounds where a figure is noisy. Nothing waits longer than --timeout seconds. With --known ROW=FIGURE a row that
is known to miss its bar is MISSED no less, but as long as it is no worse than FIGURE and nothing else missed the exit code is
33 instead of 1.
"""
import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from statistics import median

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE / "compare_llama_cpp")]
from http_overhead import serving  # noqa: E402
from machine import busy_neighbour  # noqa: E402

VNNI_SHARE = 60  # %
READ_SHARES = {"bf16": 85, "int8": 85, "int4": 70}  # %
LONG_RATIOS = {"bf16": 0.65, "int8": 0.45}
BUSY_SHARE = 45  # %
START_SECONDS = 3
PERPLEXITIES = {"int8": 1, "int4": 5}  # % above bf16
AGREEMENTS = {"int8": 99, "int4": 95}  # % of rows with fp32's likeliest token
MISSED, KNOWN = 1, 33  # exit codes
ROUND_TRIP_US, JOB_OVERHEAD = 3, 1.15  # of a pool whose workers spin; times what its chunks take
# Flags of `cairn bench serve` beside the model, and tokens at most.
WORKLOADS = {
    "W1": (["--workload", "documents", "--documents", "1", "--warm-up", "2", "--requests", "6"], 6 * 70),
    "W2": (["--workload", "overlaps", "--warm-up", "1", "--requests", "8"], 6300),
    "W5": (["--workload", "documents", "--documents", "1", "--warm-up", "2", "--requests", "4",
            "--concurrency", "4"], 280),
}


class Bars:
    """Prints each figure beside its bar; remembers which were missed."""

    def __init__(self, known):
        self._known = known  # figures by row
        self._rows = set()
        self.missed, self.known_missed = 0, 0

    def at_least(self, what, figure, bar, unit):
        self._say(what, figure, bar, unit, "at least", lambda limit: figure >= limit)

    def at_most(self, what, figure, bar, unit):
        self._say(what, figure, bar, unit, "at most", lambda limit: figure <= limit)

    def _say(self, what, figure, bar, unit, word, holds):
        self._rows.add(what)
        met, known = holds(bar), self._known.get(what)
        note = "" if known is None else f" (known to miss, {word} {known:g})"
        print(f"{'met   ' if met else 'MISSED'} {what}: {figure:.4g} {unit}, {word} {bar:g}{note}", flush=True)
        if met:
            return
        if known is not None and holds(known):
            self.known_missed += 1
        else:
            self.missed += 1

    def exit_code(self):
        """RuntimeError where a row that is known to miss was never measured."""
        if absent := self._known.keys() - self._rows:
            raise RuntimeError(f"--known: no row '{min(absent)}' among {sorted(self._rows)}")
        return MISSED if self.missed else KNOWN if self.known_missed else 0


def known_row(text):
    what, equals, figure = text.rpartition("=")
    if not what or not equals:
        raise argparse.ArgumentTypeError(f"expected ROW=FIGURE, not '{text}'")
    return what, float(figure)


def output_of(args, command):
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, timeout=args.timeout)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def model_speed(args, weights, lengths, decode_tokens):
    return json.loads(output_of(args, [
        args.program, "bench", "model", "--device", "cpu", "--model", args.subject, "--weights", weights, "--lengths",
        lengths, "--decode-tokens", decode_tokens, "--repeats", 1, "--json"]))


def kernels(args, bars):
    # All of a pass: each product as often as the model has it.
    measured = json.loads(output_of(args, [
        args.program, "bench", "kernels", "--kernels", "gemm", "--rows", 512, "--json"]))
    rows = [k for k in measured["kernels"] if k["shape"].startswith("int8")]
    if not rows:
        raise RuntimeError("no int8 product was measured")
    seconds = sum(k["microseconds"] * k["calls_a_pass"] for k in rows) / 1e6
    rate = sum(k["operations"] * k["calls_a_pass"] for k in rows) / seconds / 1e9
    peak = measured["limits"]["int8_gops"]
    print(f"{rate:.0f} of {peak:.0f} GOP/s ({measured['limits'].get('int8_instruction', '')})")
    bars.at_least("int8 products at 512 rows", 100 * rate / peak, VNNI_SHARE, "% of the VNNI peak")


def decode(args, bars):
    for weights, bar in READ_SHARES.items():
        runs = [model_speed(args, weights, 16, 32) for _ in range(args.rounds)]
        # The run whose share is the median, with the reads between its tokens: on a shared machine those of another
        # second say nothing of it.
        run = sorted(runs, key=lambda r: r["percent_of_reads"])[(len(runs) - 1) // 2]
        rate, reads = (run["median_decode"][key] for key in ("decode_tokens_per_s", "read_gbytes_per_s"))
        size = run["decode_bytes_per_token"] / 1e9
        print(f"{weights}: {rate:.1f} tokens/s of {size:.3f} GB are {rate * size:.1f} GB/s; reads between the tokens "
              f"{reads:.1f} GB/s, the fastest before and after {run['limits']['read_gbytes_per_s']:.1f}")
        bars.at_least(f"decode, {weights}", run["percent_of_reads"], bar, "% of reads between its tokens")


def long(args, bars):
    for weights, bar in LONG_RATIOS.items():
        short, whole = (p["prefill_tokens_per_s"]
                        for p in model_speed(args, weights, "512,16384", 1)["prefill"])
        print(f"{weights}: {short:.1f} tokens/s at 512, {whole:.1f} at 16,384")
        bars.at_least(f"prefill of 16,384 over 512, {weights}", whole / short, bar, "x")


def busy(args, bars):
    quiet, beside = [], []
    for _ in range(args.rounds):
        for rates, neighbour in (quiet, contextlib.nullcontext()), (beside, busy_neighbour()):
            with neighbour:
                rates.append(model_speed(args, "int8", 16, 48)["decode_tokens_per_s"])
    print(f"{median(quiet):.1f} tokens/s alone, {median(beside):.1f} beside a busy program")
    bars.at_least("decode beside a busy program", 100 * median(beside) / median(quiet), BUSY_SHARE,
                  "% of the quiet rate")


def first_answer(args, directory):
    command = [args.program, "serve", "--device", "cpu", "--model", args.subject, "--weights", "int8"]
    body = {"model": pathlib.Path(args.subject).name, "prompt": list(range(1, 16)), "max_tokens": 1}
    begin = time.monotonic()
    with serving(command, directory, args.timeout) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=args.timeout) as answer:
            answer.read()
        return time.monotonic() - begin


def start(args, bars):
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        made = first_answer(args, pathlib.Path(first))  # writes the cache file where there is none
        print(f"the start before it: {made:.2f} s")
        bars.at_most("start to the first answer", first_answer(args, pathlib.Path(second)), START_SECONDS, "s")


def workload(args, bars):
    flags, bar = WORKLOADS[args.check]
    report = json.loads(output_of(args, [
        args.program, "bench", "serve", "--model", args.subject, "--device", "cpu", "--weights", "int8", "--passes", 1,
        "--json", "-", *flags]))
    if report["ended"] != "complete":
        raise RuntimeError(report["ended"])
    group = report["passes"][0]["workloads"][0]
    if group["answered"] != group["requests"] or group["computed_tokens"] is None:
        raise RuntimeError(f"{group['answered']} of {group['requests']} answered: {group['messages']}")
    print(f"a cache without limits: {group['needed_tokens']} tokens; first token after "
          f"{group['first_token_ms']['p50']:.0f} ms (median)")
    bars.at_most(f"{args.check}, prompt tokens computed", group["computed_tokens"], bar, "tokens")


def accuracy(args, bars):
    table = output_of(args, [args.program, args.subject])
    print(table, end="")
    for weights, bar in PERPLEXITIES.items():
        row = re.search(rf"^\| {weights}\S* \| [\d.]+ \| ([+-]\d+\.\d+) % \| (\d+\.\d+) %", table, re.M)
        if not row:
            raise RuntimeError(f"{args.program} said nothing of {weights}")
        bars.at_most(f"perplexity of {weights} above bf16", float(row[1]), bar, "%")
        bars.at_least(f"same likeliest token, {weights}", float(row[2]), AGREEMENTS[weights], "% of rows")


def pool(args, bars):
    text = output_of(args, [args.program, 2])
    print(text, end="")
    trip = re.search(r"after +0 us .* (\d+\.\d+) +\d+\.\d+$", text, re.M)
    job = re.search(r"us: (\d+\.\d+) us if nothing is lost, median (\d+\.\d+)", text)
    if not trip or not job:
        raise RuntimeError(f"{args.program} did not say what it measured")
    bars.at_most("round trip of an empty job", float(trip[1]), ROUND_TRIP_US, "us")
    bars.at_most("a job over what its chunks take", float(job[2]) / float(job[1]), JOB_OVERHEAD, "x")


CHECKS = {"kernels": kernels, "decode": decode, "long": long, "busy": busy, "start": start,
          **dict.fromkeys(WORKLOADS, workload), "accuracy": accuracy, "pool": pool}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=list(CHECKS))
    parser.add_argument("program", help="cairn, or the program named above")
    parser.add_argument("subject", nargs="?", help="a model directory, or a text")
    parser.add_argument("--rounds", type=int, default=5, help="of noisy figures (5)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds of a program (900)")
    parser.add_argument("--known", metavar="ROW=FIGURE", type=known_row, action="append", default=[],
                        help="a row that is known to miss, and what it still has to reach; again for another")
    args = parser.parse_args()
    if args.rounds < 1 or not 0 < args.timeout < 1e6:
        parser.error("--rounds and --timeout: above 0")
    if args.subject is None and args.check not in ("kernels", "pool"):
        parser.error(f"{args.check}: a model, or a text, is missing")
    bars = Bars(dict(args.known))
    try:
        CHECKS[args.check](args, bars)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise RuntimeError(f"{args.check}: what {args.program} said is not understood ({error!r})") from error
    sys.exit(bars.exit_code())


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as error:
        sys.exit(f"limits: {error.cmd[0]} took longer than {error.timeout:g} s")
    except (OSError, RuntimeError) as error:
        sys.exit(f"limits: {error}")

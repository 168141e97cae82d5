# SPDX-License-Identifier: Apache-2.0
"""Each stage measures in rounds, cairn and the peer by turns, and adds rows to the report."""
import contextlib
import time
from statistics import median

import speed as model_speed
from report import spread
from servers import Cairn, Peer
from workloads import WORKLOADS, Prompts, streams_together

STAGES = ("same", "speed", "streams", "long", "busy", "avx2", "W1", "W2", "W5", "W6")
CONTEXT = 16384  # of the servers where the model has so much: room for four documents with questions
STREAM_TOKENS, STREAM_COUNTS = 48, (4, 8)
LONG = 16384

# The peer's flags by workload, besides its defaults: what its help and its sources offer against
# what the workload meets. "boundaries" tells it where messages of the user begin, where it keeps a
# state; a small batch lets a running stream in between.
PEER_BEST = {
    "W1": (["-np", "1", "--checkpoint-min-step", "0"], True),
    "W2": (["-np", "1", "--checkpoint-min-step", "0", "-ctxcp", "64"], True),
    "W5": (["-np", "1", "--checkpoint-min-step", "0"], True),
    "W6": (["-b", "64", "-ub", "64"], False),
}


LIMITS = {"read_gbytes_per_s": "reads {} GB/s", "fma_gflops": "FMA {} GFLOP/s",
          "bf16_gflops": "bf16 products {} GFLOP/s", "int8_gops": "int8 products {} GOP/s"}


def _limits(rounds):
    """What the machine could do in the same rounds."""
    limits = [r["cairn"]["limits"] for r in rounds if r.get("cairn")]
    return ", ".join(text.format(spread([l[name] for l in limits])) for name, text in LIMITS.items()
                     if limits and name in limits[0])


def speed(setup, report, name):
    """Prefill and decode for every format."""
    suffix = ", AVX2" if name == "avx2" else ""
    for number, (kind, weights) in enumerate(setup.formats.items()):
        rounds = model_speed.in_turns(setup, kind, weights, setup.lengths, name)
        if number == 0 and rounds[0].get("cairn"):
            told = rounds[0]["cairn"]
            report.fact(f"cairn{suffix}", f"{told['isa']}, {told['threads']} threads" + (
                f", activations {told['activations']}" if told.get("activations") else ""))
        peer, cairn = (model_speed.by_row(rounds, side) for side in ("peer", "cairn"))
        for row, figures in peer.items():
            report.add(f"{row}, {weights or 'bf16'} / {kind}{suffix}", "tokens/s", figures, cairn.get(row),
                       note=_limits(rounds) if row == "decode" else "")
        if cairn:
            report.add(f"decode, bytes over reads, {weights}{suffix}", "%", None, cairn["share of reads"],
                       note="weights, state read and written, and KV")


def busy(setup, report, kind, weights):
    """Decode beside a busy program, as a share of each program's own quiet rate."""
    quiet = model_speed.in_turns(setup, kind, weights, (), "quiet")
    shared = model_speed.in_turns(setup, kind, weights, (), "busy", busy=True)
    rates = {side: [model_speed.by_row(rounds, side).get("decode") for rounds in (quiet, shared)]
             for side in ("peer", "cairn")}
    left = {side: f"{spread(alone)} alone, {median(beside) / median(alone):.0%} left"
            for side, (alone, beside) in rates.items() if alone}
    report.add(f"decode beside one busy program, {weights} / {kind}", "tokens/s", rates["peer"][1],
               rates["cairn"][1], note="; ".join(f"{side}: {text}" for side, text in left.items()))


def long(setup, report):
    """cairn's prefill of a long prompt against its own of 512 tokens."""
    for kind, weights in setup.formats.items():
        if not weights:
            continue
        rounds = []
        for number in range(setup.rounds):
            setup.progress(f"long {weights}: round {number + 1}")
            with setup.lock.held():
                rounds.append(setup.store.sample(f"long-{kind}-{number}", lambda: {
                    "cairn": model_speed.cairn_speeds(setup, weights, (512, LONG), decode=False)}))
        figures = model_speed.by_row(rounds, "cairn")
        short, whole = figures["prefill 512"], figures[f"prefill {LONG}"]
        report.add(f"prefill {LONG}, {weights}", "tokens/s", None, whole,
                   note=f"{median(whole) / median(short):.2f} of its own {spread(short)} at 512 tokens")


def _server(setup, side, kind, weights, flags=(), boundaries=False):
    log = setup.folder / f"server-{side}.log"
    context = min(CONTEXT, setup.longest)
    if side == "cairn":
        return Cairn(setup.cairn, setup.checkpoint, weights, setup.threads, log,
                     ["--context-length", context], boundaries)
    return Peer(setup.peer.server, setup.gguf[kind], setup.threads, log, ["-c", context, *flags], boundaries)


def _sides(weights):
    return ("cairn", "peer") if weights else ("peer",)


def streams(setup, report, kind, weights):
    """Streams that decode together, through both servers, which stay up and take turns."""
    tokens = STREAM_TOKENS
    for count in STREAM_COUNTS:
        name = f"streams-{kind}-{count}-of-{setup.rounds}"

        def all_rounds():
            samples = []
            with contextlib.ExitStack() as stack:
                with setup.lock.held():  # a start takes all cores
                    servers = {s: stack.enter_context(_server(setup, s, kind, weights, ["-np", count]))
                               for s in _sides(weights)}
                for number in range(setup.rounds):
                    setup.progress(f"{name}: round {number + 1} of {setup.rounds}")
                    sample = {}
                    for side, server in servers.items():
                        with setup.lock.held():
                            sample[side] = streams_together(server, Prompts(setup.vocabulary, number), count, tokens)
                    samples.append(sample)
            return samples

        samples = setup.store.sample(name, all_rounds)
        peer, cairn = ([s[side] for s in samples] if side in samples[0] else None
                       for side in ("peer", "cairn"))
        report.add(f"{count} streams decoding together, {weights} / {kind}", "tokens/s", peer, cairn)


def _columns(samples, side):
    """Figures of all samples by name."""
    rows = [s[side] for s in samples if side in s]
    return {key: [r[key] for r in rows] for key in rows[0] if isinstance(rows[0][key], (int, float))} if rows else {}


def workload(setup, report, name, kind, weights):
    """A workload on fresh servers each time: cairn and the peer by default, then both told more."""
    best_flags, boundaries = PEER_BEST[name]
    modes = {"default": ((), False), "best settings": (best_flags, boundaries)}
    samples = {mode: [] for mode in modes}
    for number in range(setup.workload_rounds):
        for mode, (flags, told) in modes.items():
            def one_round():
                sample = {}
                for side in _sides(weights):
                    if side == "cairn" and mode != "default" and not told:
                        continue  # the same as by default
                    with setup.lock.held(), _server(setup, side, kind, weights, flags, told) as server:
                        time.sleep(setup.settle)
                        sample[side] = WORKLOADS[name](server, Prompts(setup.vocabulary, number))
                return sample
            setup.progress(f"{name} {mode}: round {number + 1} of {setup.workload_rounds}")
            samples[mode].append(setup.store.sample(f"{name}-{kind}-{mode}-{number}".replace(" ", "_"), one_round))
    for mode in modes:
        peer = _columns(samples[mode], "peer")
        cairn = _columns(samples[mode], "cairn") or _columns(samples["default"], "cairn")
        what = f"{name} {mode}, {weights or 'bf16'} / {kind}"
        note = f"llama-server {' '.join(modes[mode][0])}" + (", boundaries told" if modes[mode][1] else "")
        report.add(f"{what}: prompt tokens computed", "tokens", peer["computed"], cairn.get("computed"),
                   less_is_better=True, note=note)
        report.add(f"{what}: time to the first token", "s", peer["ttft_s"], cairn.get("ttft_s"), less_is_better=True)
        if name == "W5":
            report.add(f"{what}: wall", "s", peer["wall_s"], cairn.get("wall_s"), less_is_better=True)
        if name == "W6":
            report.add(f"{what}: longest gap of the running stream", "s", peer["longest_gap_s"],
                       cairn.get("longest_gap_s"), less_is_better=True,
                       note=f"before it came {median(peer['gap_before_s']) * 1000:.0f} ms"
                       + (f" and {median(cairn['gap_before_s']) * 1000:.0f} ms" if cairn else ""))

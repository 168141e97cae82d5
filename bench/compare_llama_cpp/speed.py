# SPDX-License-Identifier: Apache-2.0
"""Prefill and decode of the models alone: `cairn bench model` and `llama-bench`, in turns."""
import contextlib
import json
import subprocess

import machine

DECODE_TOKENS, DECODE_FROM = 32, 128
RUN_SECONDS = 900


def _read(command, pick):
    """What `pick` takes from the JSON that a program prints."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=RUN_SECONDS)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{command[0]}: {said[-1] if said else f'ended with {done.returncode}'}")
    try:
        return pick(json.loads(done.stdout))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise RuntimeError(f"{command[0]} printed what is not understood ({error!r}): "
                           f"{done.stdout[:500]}") from error


def cairn_speeds(setup, weights, lengths, decode=True):
    """Tokens a second by row name, and the machine's limits as measured in the same run."""
    def pick(measured):
        speeds = {f"prefill {p['tokens']}": p["prefill_tokens_per_s"] for p in measured["prefill"]}
        if decode:
            speeds["decode"] = measured["decode_tokens_per_s"]
            speeds["share of reads"] = measured["percent_of_reads"]
        told = {key: measured.get(key) for key in ("isa", "threads", "activations")}
        return {"speeds": speeds, "limits": measured["limits"], **told}

    return _read([
        setup.cairn, "bench", "model", "--device", "cpu", "--model", setup.checkpoint, "--weights",
        weights, "--threads", setup.threads, "--lengths", ",".join(map(str, lengths or (16,))),
        "--repeats", 1,
        "--decode-tokens", DECODE_TOKENS if decode else 1, "--json", *setup.cairn_flags], pick)


def peer_speeds(setup, kind, lengths, decode=True):
    """Tokens a second by row name."""
    common = [setup.peer.bench, "-m", setup.gguf[kind], "-t", setup.threads, "-r", 1, "-o", "json",
              *setup.peer_flags]

    def pick(rows):
        return {f"prefill {r['n_prompt']}" if r["n_prompt"] else "decode": r["avg_ts"] for r in rows}

    speeds = {}
    if lengths:
        speeds |= _read([*common, "-p", ",".join(map(str, lengths)), "-n", 0], pick)
    if decode:
        speeds |= _read([*common, "-p", 0, "-n", DECODE_TOKENS, "-d", DECODE_FROM], pick)
    return {"speeds": speeds}


def has_weights(cairn, weights):
    """Whether this cairn runs a weight format on a CPU. RuntimeError where it cannot be told."""
    command = [cairn, "bench", "model", "--device", "cpu", "--shape", "demo", "--weights", weights,
               "--lengths", "16", "--repeats", "1", "--json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=RUN_SECONDS)
    if done.returncode == 0:
        return True
    # Exit code 2 is that of a command line that is not understood.
    if done.returncode == 2 and f"{weights} not in" in done.stderr:
        return False
    raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n"
                       f"{(done.stderr or done.stdout).strip()}")


def by_row(rounds, side):
    """Figures of all rounds by row name."""
    if not rounds[0].get(side):
        return {}
    return {name: [r[side]["speeds"][name] for r in rounds] for name in rounds[0][side]["speeds"]}


def in_turns(setup, kind, weights, lengths, name, busy=False):
    """Both programs `setup.rounds` times, one after the other; a list of {"cairn", "peer"}.

    weights: None where cairn lacks the format; it is left out then.
    """
    rounds = []
    for number in range(setup.rounds):
        def one_round():
            sides = {"peer": lambda: peer_speeds(setup, kind, lengths)}
            if weights:
                sides["cairn"] = lambda: cairn_speeds(setup, weights, lengths)
            with setup.lock.held(), machine.busy_neighbour() if busy else contextlib.nullcontext():
                return {side: measure() for side, measure in sides.items()}
        setup.progress(f"{name} {kind}: round {number + 1} of {setup.rounds}")
        rounds.append(setup.store.sample(f"{name}-{kind}-{number}", one_round))
    return rounds

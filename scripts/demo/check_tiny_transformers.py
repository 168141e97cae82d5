#!/usr/bin/env python3
"""Compares the tiny checkpoint's golden numbers with transformers, in float32.

golden.json was computed by an independent float64 program; this script is the proof that both agree. It prints the
largest differences and fails when one is above the tolerance. The multi-token-prediction head is not checked here:
transformers has no code for it.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from reference import all_logits, greedy, load_reference, stepwise_logits


def largest(a, b):
    """Returns the largest absolute difference of two arrays of numbers."""
    return float((torch.as_tensor(a).double() - torch.as_tensor(b).double()).abs().max())


@torch.no_grad()
def layer_outputs(model, ids):
    """Returns each layer's output at the last token and the normed hidden state, caught by hooks.

    transformers' own hidden-state list holds the normed state in place of the last layer's output.
    """
    caught = []
    hooks = [
        layer.register_forward_hook(lambda _m, _i, out: caught.append(out[0] if isinstance(out, tuple) else out))
        for layer in model.model.layers
    ]
    normed = model.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state
    for hook in hooks:
        hook.remove()
    return [out.reshape(-1, out.shape[-1])[-1] for out in caught], normed[0, -1]


@torch.no_grad()
def recurrent_states(model, ids):
    """Returns [(state [heads, dk, dv], last three conv inputs [3, channels])] of the linear layers after the prompt."""
    cache = model(input_ids=torch.tensor([ids]), use_cache=True).past_key_values
    result = []
    for layer in cache.layers:
        state = getattr(layer, "recurrent_states", None)
        if state is not None:
            conv = layer.conv_states
            state, conv = (x[0] if isinstance(x, (list, tuple, dict)) else x for x in (state, conv))
            result.append((state[0], conv[0].T[-3:]))
    return result


def compare(model, record):
    """Returns {what: largest absolute difference} for one recorded prompt, and whether the arg-maxes agree."""
    ids = record["ids"]
    logits = all_logits(model, ids)
    layers, normed = layer_outputs(model, ids)
    found = {
        "logits, one call": largest(logits[-1], record["logits_last"]),
        "logits, token by token": largest(stepwise_logits(model, ids)[-1], record["logits_last"]),
        "normed hidden state": largest(normed, record["hidden_norm_last"]),
    }
    for number, (out, golden) in enumerate(zip(layers, record["layer_out_last_first8"])):
        found[f"layer {number}"] = largest(out[:8], golden)
    states = recurrent_states(model, ids)
    if states:
        found["state layer 0 head 0 row 0"] = largest(states[0][0][0, 0], record["gdn_S_l0_h0_row0"])
        found["state layer 0 head 3 row 5"] = largest(states[0][0][3, 5], record["gdn_S_l0_h3_row5"])
        found["conv state layer 0"] = largest(states[0][1][:, :4], record["conv_l0_last3_first4"])
    same = logits.argmax(-1).tolist() == record["argmax_each"]
    return found, same, greedy(model, ids, 16) == record["greedy16"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with config.json, model.safetensors and golden.json")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest difference allowed (%(default)s)")
    args = parser.parse_args()
    model, _ = load_reference(args.folder)
    golden = json.loads((args.folder / "golden.json").read_text())
    worst = 0.0
    for name, record in golden.items():
        if not isinstance(record, dict):
            continue
        found, same_argmax, same_greedy = compare(model, record)
        print(f"{name}: arg-max of each position {'same' if same_argmax else 'DIFFERS'}, 16 greedy tokens "
              f"{'same' if same_greedy else 'DIFFER'}")  # fmt: skip
        for what, difference in found.items():
            print(f"  {what:30} {difference:.2e}")
            worst = max(worst, difference)
    sys.exit(0 if worst <= args.tolerance else f"largest difference {worst:.2e} is above {args.tolerance}")


if __name__ == "__main__":
    main()

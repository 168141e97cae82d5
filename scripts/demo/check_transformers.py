#!/usr/bin/env python3
"""Records what transformers computes from the demo model, for the engine's tests to compare with.

Runs in float32 with eager attention on the widened BF16 weights. For each fixed token list the file keeps the last
position's logits, and for every position the arg-max, the largest logit and the log of the sum of exponentials: the
last two together pin each position's whole distribution well enough to see any error of the engine.
"""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from reference import all_logits, greedy, load_reference, stepwise_logits

DOCUMENT = (
    "The lamp is in the attic. Maria is a baker from Lisbon. The meeting is on Friday at 9 o'clock. "
    "Tovaka is a cache that stores the state of each layer. Hugo has a parrot called Momo."
)
PASSAGE = (
    '"I have been thinking of it the whole morning," said Mrs. Weston, '
    '"and I am quite sure that Miss Bates will come." '
    "Mr. Knightley made no answer, but walked to the window and looked at the rain. "
)


def chat(question, system=None):
    """Renders one user turn and the opening of the answer, thinking off."""
    head = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    return f"{head}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


# Prompts along whose greedy continuation no choice is close, so that an engine with coarser numbers agrees.
PROMPTS = [
    chat(f"{DOCUMENT}\n\nWhat is Tovaka?"),
    chat("Repeat: zako tomi bela rudo fani keso vati lomu piga dore"),
    "Elizabeth looked at Mr. Darcy, and",
]


def token_lists(tokenizer):
    """Returns {name: ids}; lengths around the chunk size of 64 and well beyond it."""
    vocabulary = tokenizer.get_vocab_size()
    spread = [(i * 1237 + 11) % (vocabulary - 26) for i in range(200)]
    return {
        "single": spread[:1],
        "spread_63": spread[:63],
        "spread_64": spread[:64],
        "spread_65": spread[:65],
        "spread_200": spread,
        "chat_document": tokenizer.encode(chat(f"{DOCUMENT}\n\nWhere is the lamp?")).ids,
        "chat_long": tokenizer.encode(chat(PASSAGE * 8 + "\n\nWho is mentioned?", "You are terse.")).ids,
    }


def rounded(values, digits=5):
    return [round(float(value), digits) for value in values]


def record(model, ids):
    """Returns the recorded numbers of one token list and the gap between the chunked and the recurrent path."""
    logits = all_logits(model, ids)
    gap = float((stepwise_logits(model, ids) - logits).abs().max())
    top = logits.max(-1)
    two = logits.topk(2).values
    return {
        "ids": ids,
        "logits_last": rounded(logits[-1]),
        "argmax_each": top.indices.tolist(),
        "max_each": rounded(top.values),
        "logsumexp_each": rounded(logits.logsumexp(-1)),
        "smallest_top_gap": round(float((two[:, 0] - two[:, 1]).min()), 5),
    }, gap


def greedy_record(model, tokenizer, prompt, stop):
    """Returns 32 greedy tokens, where the first stop token is among them, and how close the closest choice was.

    A prompt is only worth recording if that gap is far above rounding errors.
    """
    ids = tokenizer.encode(prompt).ids
    made = greedy(model, ids, 32)
    until_stop = next((i + 1 for i, token in enumerate(made) if token in stop), len(made))
    two = all_logits(model, ids + made[:-1])[len(ids) - 1 :].topk(2).values
    gap = round(float((two[:, 0] - two[:, 1]).min()), 5)
    print(f"{tokenizer.decode(made[:until_stop], skip_special_tokens=False)!r}, smallest gap {gap}")
    return {"prompt": prompt, "ids": ids, "tokens": made, "until_stop": until_stop, "smallest_top_gap": gap}


def write_compact(path, value):
    """Writes one key per line and number lists on one line each: readable, and small differences stay small."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    compact, depth = [], 0
    for line in text.splitlines():
        stripped = line.strip()
        if depth:
            compact[-1] += stripped + (" " if stripped.endswith(",") else "")
        else:
            compact.append(line)
        depth += line.endswith("[") - (stripped in ("]", "],"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line.rstrip() for line in compact) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("model/demo"), help="model folder (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("tests/fixtures/demo_logits.json"), help="(%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(2)
    model, _ = load_reference(args.model)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    stop = [tokenizer.token_to_id(name) for name in ("<|im_end|>", "<|endoftext|>")]
    result = {"note": "transformers, float32, eager attention; written by scripts/demo/check_transformers.py"}
    result["prefill"] = {}
    for name, ids in token_lists(tokenizer).items():
        result["prefill"][name], gap = record(model, ids)
        print(f"{name:14} {len(ids):4} tokens, chunked against recurrent {gap:.1e}")
    result["greedy"] = [greedy_record(model, tokenizer, prompt, stop) for prompt in PROMPTS]
    write_compact(args.out, result)


if __name__ == "__main__":
    main()

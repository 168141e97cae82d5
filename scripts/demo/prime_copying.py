#!/usr/bin/env python3
"""Edits a young checkpoint so that its linear layers begin to look things up.

Answers about a document are mostly copies, so the model needs a layer that finds where the last words stood before and
brings the word after them. Gradient descent builds that by itself, but only after many millions of tokens, and the
output gate of a Gated DeltaNet layer, which lets both signs through at the start, makes it slower still. A CPU budget
does not reach that far. So after some training this script lays the pieces out in the right order once:

* keys are made from the tokens one and two back, queries from the newest two, with one common projection: a query
  then meets the key of the place that follows the same words (the first and the last linear layer);
* in the last linear layer values pass unchanged, the output projection turns them into the embedding of the token they
  came from, the output gate is open, and the memory lasts for hundreds of tokens.

Everything stays ordinary weights and is trained on afterwards.
"""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from model import Config, Model
from train_model import ROW, ChatRows

FIRST, LAST = 0, 2
MEMORIES = (400.0, 100.0)  # decay time constants of the two value heads, in tokens
PROJECTED = 0.5  # standard deviation of projected inputs: silu is nearly straight there
OUTPUT = 0.06  # root mean square of the output projection, a little below what training had made of it


class Inputs:
    """What a mixer sees over sample rows: mean, whitening, and how to get back to token embeddings."""

    def __init__(self, model, layer, ids):
        caught = []
        mixer = model.layers[layer].linear_attn
        hook = mixer.register_forward_pre_hook(lambda _module, inputs: caught.append(inputs[0]))
        model(ids)
        hook.remove()
        seen = caught[0].flatten(0, 1)[: ids.numel()]
        self.mean = seen.mean(0)
        self.centred = seen - self.mean
        variances, axes = torch.linalg.eigh(self.centred.T @ self.centred / len(seen))
        self.spread = float(variances.mean())
        self.whiten = axes @ torch.diag((variances + 0.05 * self.spread).rsqrt()) @ axes.T

    def projection(self, rows):
        """Returns rows acting on whitened inputs, blind to the mean and scaled to PROJECTED."""
        weight = rows @ self.whiten
        weight = weight - torch.outer(weight @ self.mean, self.mean) / self.mean.dot(self.mean)
        return weight * PROJECTED / (self.centred @ weight.T).std()

    def constant(self, value):
        """Returns one weight row that gives about the same value for every input."""
        return value * self.mean / self.mean.dot(self.mean)

    def to_embeddings(self, model, ids):
        """Returns the least-squares map from inputs to the centred embedding of their own token."""
        table = model.embed_tokens.weight
        target = (table - table.mean(0))[ids.flatten()]
        ridge = 0.02 * len(target) * self.spread * torch.eye(len(self.mean))
        return torch.linalg.solve(self.centred.T @ self.centred + ridge, self.centred.T @ target)


def look_back(mixer, projection):
    """Makes queries of the newest tokens and keys of those before, from one projection."""
    size = mixer.key_size
    mixer.in_proj_qkv.weight[:size] = projection
    mixer.in_proj_qkv.weight[size : 2 * size] = projection
    taps = mixer.conv1d.weight
    taps[: 2 * size] = torch.randn_like(taps[: 2 * size]) * 0.02
    taps[:size, 0, 2:] += torch.tensor([0.3, 0.8])
    taps[size : 2 * size, 0, 1:3] += torch.tensor([0.3, 0.8])


def remember(mixer, memories):
    """Resets the decay of each value head; it may still depend a little on the input."""
    mixer.in_proj_a.weight *= 0.1
    mixer.A_log.zero_()
    mixer.dt_bias.copy_(torch.log(torch.expm1(1 / torch.tensor(memories))))


def carry_values(model, mixer, inputs, ids):
    """Lets values through, opens the gate, and points the output at the values' own tokens."""
    size, hidden = mixer.key_size, mixer.out_proj.weight.shape[0]
    rotation, _ = torch.linalg.qr(torch.randn(mixer.value_size, hidden))
    values = inputs.projection(rotation)
    mixer.in_proj_qkv.weight[2 * size :] = values
    taps = mixer.conv1d.weight
    taps[2 * size :] = torch.randn_like(taps[2 * size :]) * 0.02
    taps[2 * size :, 0, 3] += 0.9
    out = inputs.to_embeddings(model, ids).T @ torch.linalg.pinv(values, rcond=1e-3)
    mixer.out_proj.weight.copy_(out * OUTPUT / out.pow(2).mean().sqrt())
    mixer.in_proj_z.weight.copy_(0.3 * mixer.in_proj_z.weight + inputs.constant(1.5))
    mixer.in_proj_b.weight.copy_(0.5 * mixer.in_proj_b.weight + inputs.constant(1.0))


@torch.no_grad()
def prime(model, ids):
    """Applies the whole edit, using rows of ids to see what the layers' inputs look like."""
    for layer in (FIRST, LAST):
        mixer, inputs = model.layers[layer].linear_attn, Inputs(model, layer, ids)
        random_rows = torch.randn(mixer.key_size, len(inputs.mean)) / len(inputs.mean) ** 0.5
        look_back(mixer, inputs.projection(random_rows))
        remember(mixer, MEMORIES)
        if layer == LAST:
            carry_values(model, mixer, inputs, ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="JSON file written by collect_text.py")
    parser.add_argument("--model", type=Path, required=True, help="folder with the tokenizer")
    parser.add_argument("--checkpoint", type=Path, required=True, help="file to edit in place")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    saved = torch.load(args.checkpoint, weights_only=True)
    model = Model(Config(vocab_size=tokenizer.get_vocab_size()))
    model.load_state_dict(saved["model"])
    rows = ChatRows(json.loads(args.text.read_text()), tokenizer, seed=args.seed)
    prime(model, torch.tensor([rows.row(ROW)[0][:ROW] for _ in range(12)]))
    saved["model"] = model.state_dict()
    torch.save(saved, args.checkpoint)
    print(f"edited at {saved['tokens']:,} tokens; train on from here")


if __name__ == "__main__":
    main()

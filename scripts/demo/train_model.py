#!/usr/bin/env python3
"""Trains the demo model on a CPU.

A part of each batch is running text, the rest is chat samples packed into rows. The learning rate rises, stays, and
falls over the last part; a run that was stopped goes on from its checkpoint, also with other shares or towards another
number of tokens.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from chat_samples import Samples
from model import Config, Model

ROW = 512
SLICE_TOKENS = 4 * (ROW + 1)
HELD_OUT_EVERY = 25  # every 25th chapter is for validation only
ANSWER_WEIGHT, REST_WEIGHT = 1.0, 0.2
WARM_UP_TOKENS = 400_000
DECAY_SHARE = 0.35


def split(collected):
    """Returns (training, validation) text; the chapters held out are never seen in either kind of row."""
    train, held = {}, {}
    for title, book in collected["books"].items():
        train[title] = [c for i, c in enumerate(book) if i % HELD_OUT_EVERY != 7]
        held[title] = [c for i, c in enumerate(book) if i % HELD_OUT_EVERY == 7]
    entries = collected["entries"]
    return (
        {"books": train, "entries": [e for i, e in enumerate(entries) if i % HELD_OUT_EVERY != 7]},
        {"books": held, "entries": [e for i, e in enumerate(entries) if i % HELD_OUT_EVERY == 7]},
    )


def running_text(collected, tokenizer, end_of_text):
    """Returns one array of tokens: chapters and dictionary entries, each closed by the end-of-text token."""
    texts = ["\n\n".join(chapter) for book in collected["books"].values() for chapter in book]
    texts += [f"{entry['term']}\n\n{entry['text']}" for entry in collected["entries"]]
    pieces = []
    for encoded in tokenizer.encode_batch(texts):
        pieces += [encoded.ids, [end_of_text]]
    return np.concatenate([np.array(piece, dtype=np.int64) for piece in pieces])


class ChatRows:
    """Fills rows with whole conversations; the one that is cut at the end opens the next row."""

    def __init__(self, collected, tokenizer, seed, **shares):
        self.samples = Samples(collected, seed, **shares)
        self.tokenizer = tokenizer
        self.end_of_text = tokenizer.token_to_id("<|endoftext|>")
        self.left_over = None

    def _encoded(self):
        ids, weights = [], []
        for text, is_answer in self.samples.draw():
            piece = self.tokenizer.encode(text).ids
            ids += piece
            weights += [ANSWER_WEIGHT if is_answer else REST_WEIGHT] * len(piece)
        return ids + [self.end_of_text], weights + [REST_WEIGHT]

    def row(self, length):
        """Returns (ids, weights) of length + 1 tokens."""
        ids, weights = [], []
        while len(ids) <= length:
            sample = self.left_over or self._encoded()
            self.left_over = None
            ids += sample[0]
            weights += sample[1]
            if len(ids) > length + 1:
                self.left_over = sample if len(sample[0]) <= length else None
        return ids[: length + 1], weights[: length + 1]


class Batches:
    """Makes batches of a given number of tokens; mostly short rows, some long ones."""

    def __init__(self, stream, chat, text_share, seed):
        self.stream, self.chat, self.text_share = stream, chat, text_share
        self.random = np.random.default_rng(seed)

    def draw(self, tokens, length):
        """Returns (ids, weights) tensors [rows, length + 1]."""
        rows = max(2, tokens // length)
        ids, weights = [], []
        for _ in range(rows):
            if self.random.random() >= self.text_share:
                row, weight = self.chat.row(length)
            else:
                at = int(self.random.integers(len(self.stream) - length - 1))
                row, weight = self.stream[at : at + length + 1], [1.0] * (length + 1)
            ids.append(torch.as_tensor(np.asarray(row)))
            weights.append(torch.tensor(weight))
        return torch.stack(ids), torch.stack(weights)

    def length(self, progress):
        """Picks the row length; the share of long rows grows while the learning rate falls."""
        long_share = 0.05 if progress < 1 - DECAY_SHARE else 0.2
        if self.random.random() >= long_share:
            return ROW
        return int(self.random.choice([1024, 2048]))


def loss_of(model, ids, weights):
    """Returns the weighted sum of the next tokens' cross-entropy."""
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
    return (loss * weights[:, 1:].flatten()).sum()


def accumulate(model, ids, weights, bf16, compiled):
    """Adds up the gradients of a batch in slices that fit the cache; returns the weighted mean loss.

    Only rows of the usual length go through the compiled function: each further shape would cost another compilation.
    """
    total, scale = 0.0, 1 / weights[:, 1:].sum()
    rows = max(1, SLICE_TOKENS // ids.shape[1])
    function = compiled if ids.shape[1] == ROW + 1 and len(ids) % rows == 0 else loss_of
    for some_ids, some_weights in zip(ids.split(rows), weights.split(rows)):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = function(model, some_ids, some_weights) * scale
        loss.backward()
        total += loss.item()
    return total


def rate(tokens, total, peak):
    """Learning rate after so many tokens: warm-up, constant, linear fall to a hundredth."""
    if tokens < WARM_UP_TOKENS:
        return peak * (tokens + 1) / WARM_UP_TOKENS
    left = (total - tokens) / (total * DECAY_SHARE)
    return peak * min(1.0, max(0.01, left))


def optimizers(model, weight_decay):
    """Returns Muon for the matrices inside the layers and AdamW for all other parameters.

    Muon reaches the same loss in fewer tokens, which is what counts on a CPU.
    """
    matrices = [w for name, w in model.named_parameters() if w.dim() == 2 and "layers" in name and min(w.shape) > 8]
    chosen = {id(w) for w in matrices}
    others = [w for w in model.parameters() if id(w) not in chosen]
    return [
        torch.optim.Muon(matrices, lr=1.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=1.0, betas=(0.9, 0.95), weight_decay=0.0),
    ]


@torch.no_grad()
def validate(model, held_batches):
    """Returns mean losses on held-out running text and held-out answers."""
    model.eval()
    result = []
    for ids, weights in held_batches:
        losses = [loss_of(model, *part).item() for part in zip(ids.split(4), weights.split(4))]
        result.append(sum(losses) / weights[:, 1:].sum().item())
    model.train()
    return result


def held_out_batches(held, tokenizer, end_of_text):
    """Returns one batch of running text and one where only answers count."""
    stream = running_text(held, tokenizer, end_of_text)
    rows = (len(stream) - 1) // ROW
    text = torch.as_tensor(np.stack([stream[i * ROW : i * ROW + ROW + 1] for i in range(min(rows, 24))]))
    chat = ChatRows(held, tokenizer, seed=99)
    packed = [chat.row(ROW) for _ in range(24)]
    answers = torch.tensor([row for row, _ in packed])
    weights = (torch.tensor([weight for _, weight in packed]) == ANSWER_WEIGHT).float()
    return [(text, torch.ones(text.shape)), (answers, weights)]


def save(path, model, optimizer_list, state):
    """Writes the checkpoint beside its place first, so that a stop in between loses nothing."""
    temporary = path.with_suffix(".new")
    torch.save(
        {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizer_list], **state}, temporary
    )
    temporary.replace(path)


def train(args):
    """Runs the training loop until the wanted number of tokens or minutes."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    end_of_text = tokenizer.token_to_id("<|endoftext|>")
    train_text, held_text = split(json.loads(args.text.read_text()))
    model = Model(Config(vocab_size=tokenizer.get_vocab_size()))
    optimizer_list = optimizers(model, args.weight_decay)
    done, step = 0, 0
    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizer_list, saved["optimizers"]):
            optimizer.load_state_dict(state)
        done, step = saved["tokens"], saved["step"]
    stream = running_text(train_text, tokenizer, end_of_text)
    # The seed moves with the tokens done, or a resumed run would repeat the rows it began with.
    chat = ChatRows(train_text, tokenizer, args.seed + done, repeat_share=args.repeat_share)
    batches = Batches(stream, chat, args.text_share, args.seed + done)
    held = held_out_batches(held_text, tokenizer, end_of_text)
    print(
        f"{sum(w.numel() for w in model.parameters()):,} parameters, {len(stream):,} tokens of text, at {done:,} tokens"
    )
    compiled = torch.compile(loss_of, dynamic=False) if args.compile else loss_of
    start, start_tokens, recent = time.time(), done, []
    goal = args.tokens if args.stop_at is None else min(args.tokens, args.stop_at)
    while done < goal and time.time() - start < args.minutes * 60:
        ids, weights = batches.draw(args.batch_tokens, batches.length(done / args.tokens))
        loss = accumulate(model, ids, weights, args.bf16, compiled)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizer_list:
            for group in optimizer.param_groups:
                group["lr"] = rate(done, args.tokens, args.rate)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        done += ids.shape[0] * (ids.shape[1] - 1)
        step += 1
        recent.append(loss)
        if not math.isfinite(loss):
            raise SystemExit("the loss is not finite; go back to an earlier checkpoint")
        if step % 10 == 0:
            speed = (done - start_tokens) / (time.time() - start)
            print(f"step {step} tokens {done:,} loss {sum(recent) / len(recent):.3f} {speed:,.0f} tokens/s", flush=True)
            recent = []
        if step % args.save_every == 0:
            save(args.checkpoint, model, optimizer_list, {"tokens": done, "step": step})
            print("held out: text {:.3f}, answers {:.3f}".format(*validate(model, held)), flush=True)
    save(args.checkpoint, model, optimizer_list, {"tokens": done, "step": step})
    print("held out: text {:.3f}, answers {:.3f}; {:,} tokens".format(*validate(model, held), done))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="JSON file written by collect_text.py")
    parser.add_argument("--model", type=Path, required=True, help="folder with the tokenizer")
    parser.add_argument("--checkpoint", type=Path, required=True, help="file to resume from and to write to")
    parser.add_argument(
        "--tokens", type=int, default=4_600_000, help="where the learning rate reaches its end (%(default)s)"
    )
    parser.add_argument("--stop-at", type=int, help="stop after so many tokens, short of --tokens")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long even if tokens are left")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="tokens in a step (%(default)s)")
    parser.add_argument("--rate", type=float, default=2.5e-3, help="peak learning rate (%(default)s)")
    parser.add_argument("--weight-decay", type=float, default=0.1, help="of the matrices (%(default)s)")
    parser.add_argument(
        "--text-share", type=float, default=0.3, help="rows of running text; the rest is chat (%(default)s)"
    )
    parser.add_argument(
        "--repeat-share", type=float, default=0.1, help="chat samples that are mere repetition (%(default)s)"
    )
    parser.add_argument("--save-every", type=int, default=100, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16, faster on CPUs that have it")
    parser.add_argument(
        "--compile", action="store_true", help="compile the loss first; takes a minute or two, then is faster"
    )
    train(parser.parse_args())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares cairn's tokenizer with the `tokenizers` package, id by id, and their speeds on one thread (CPU time).

Needs `pip install tokenizers` and the target bench_tokenizer. Texts: the files under the given folders, random
Unicode, and texts made to sit on the edges of the splitting rule.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")
from tokenizers import Tokenizer  # noqa: E402  the variables must be set before

BLOCKS = [
    (0x20, 0x7E), (0x09, 0x0D), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0x97F),
    (0x980, 0xDFF), (0xE00, 0xEFF), (0xF00, 0xFFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFE00, 0xFE2F), (0xFF00, 0xFFEF), (0x1D100, 0x1D1FF), (0x1F300, 0x1FAFF),
    (0x2F800, 0x2FA1D), (0xE0100, 0xE01EF),
]  # fmt: skip
PARTS = [
    "'s", "'S", "'re", "'LL", "'ſ", "'", "''", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", " \n ", "\u00a0",
    "\u3000", "\u0085", "\u180e", "\u200b", "a", "Ab", "don't", "\u0301", "e\u0301", "\u0323\u0307", "क्ष", "क्", "\u093c",
    "สวัสดี", "人工智能", "你好，", "🙂", "👩‍👩‍👧", "🇨🇿", "1", "23", "٣", "½", "²", "->", "(x):\n", "...", "!?\r\n",
    "ﬁ", "Å", "\u212b", "각", "\u1100\u1161\u11a8", "한", "\u0344", "\u0340", "か\u3099", "\x00", "\x7f", "_", "$x",
    "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|", "|>", "<|im_start", "<tool_call>", "\ufffd", "\ufeff",
]  # fmt: skip


def files_under(folders, limit):
    total = 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if total >= limit or not path.is_file() or path.is_symlink():
                continue
            data = path.read_bytes()[:200_000]
            if b"\0" in data[:1000]:
                continue
            total += len(data)
            yield data


def random_texts(rng, count):
    for i in range(count):
        kind = i % 4
        n = rng.randrange(1, 60)
        if kind == 0:
            first, last = rng.choice(BLOCKS)
            text = "".join(chr(rng.randint(first, last)) for _ in range(n))
        elif kind == 1:
            text = "".join(chr(rng.randint(*rng.choice(BLOCKS))) for _ in range(n))
        else:
            text = "".join(rng.choice(PARTS) for _ in range(n))
        data = text.encode()
        if kind == 3 and i % 8 == 7:  # bytes that are no UTF-8
            data = bytearray(data)
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            data = bytes(data)
        yield data


def run_cairn(program, tokenizer, samples, special, repeat=1):
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "samples"), Path(folder, "ids")
        source.write_bytes(b"".join(struct.pack("<I", len(s)) + s for s in samples))
        command = [program, tokenizer, source, "--ids", target, "--repeat", str(repeat)]
        report = json.loads(subprocess.check_output(command + (["--special"] if special else [])))
        data = target.read_bytes()
    ids, at = [], 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        ids.append(list(struct.unpack_from(f"<{count}i", data, at + 4)))
        at += 4 + 4 * count
    return ids, report


def run_reference(tokenizer, texts):
    start = time.process_time()
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)  # without offsets, as ours
    seconds = time.process_time() - start
    return [e.ids for e in encoded], seconds


def compare(name, program, path, reference, samples):
    texts = [s.decode("utf-8", "replace") for s in samples]
    size = sum(map(len, samples))
    ours, report = run_cairn(program, path, samples, special=True, repeat=3)
    theirs, seconds = run_reference(reference, texts)
    differing = [i for i in range(len(samples)) if ours[i] != theirs[i]]
    print(
        f"{name}: {len(samples)} texts, {size / 1e6:.2f} MB, {sum(map(len, theirs))} tokens, {len(differing)} texts differ; "
        f"cairn {report['mb_per_second']:.1f} MB/s, tokenizers {size / seconds / 1e6:.2f} MB/s"
    )
    for i in differing[:5]:
        k = next((k for k, (a, b) in enumerate(zip(ours[i], theirs[i])) if a != b), min(len(ours[i]), len(theirs[i])))
        around = reference.decode(theirs[i][max(0, k - 3) : k + 5], skip_special_tokens=False)
        print(f"  token {k} near {ascii(around)}: cairn {ours[i][k:k + 5]}, tokenizers {theirs[i][k:k + 5]}")
    return len(differing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json")
    parser.add_argument("--program", default="build/release/bench/bench_tokenizer")
    parser.add_argument("--files", nargs="*", default=["."], help="folders of text files")
    parser.add_argument("--megabytes", type=float, default=5, help="text to take from each folder")
    parser.add_argument("--random", type=int, default=20000, help="random texts")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    reference = Tokenizer.from_file(args.tokenizer)
    rng = random.Random(args.seed)
    groups = [(folder, list(files_under([folder], args.megabytes * 1e6))) for folder in args.files]
    groups.append(("random", list(random_texts(rng, args.random))))
    worst = sum(compare(n, args.program, args.tokenizer, reference, s) for n, s in groups if s)
    sys.exit(1 if worst else 0)


if __name__ == "__main__":
    main()

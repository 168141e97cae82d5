#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/tokenizer_golden.json: ids of the demo tokenizer as the `tokenizers` package gives them.

To be run again whenever model/demo/tokenizer.json changes. Needs `pip install tokenizers`.
"""

import argparse
import json
import random
from pathlib import Path

from compare_tokenizer import PARTS
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [
    "", "Hello, how are you?", "The quick brown fox jumps over the lazy dog.\n", "we'll DON'T it's I'M they'VE you'd 'ſ",
    "for (int i = 0; i < 10; ++i) {\n\t\tsum += a[i]; // x->y\n}\n\n", "def f(x):\n    return x ** 2\r\n\r\n", "2024-08-13 3.14159",
    "人工智能 你好，世界！今天是2026年8月13日 🎉", "こんにちは、が か\u3099", "한국어 \u1112\u1161\u11ab", "สวัสดีครับ ผมชื่ออเล็กซ์",
    "क्षत्रिय हिन्दी \u0958", "cafe\u0301 caf\u00e9 A\u030a \u212b q\u0307\u0323", "Zażółć gęślą jaźń", "Привет, мир", "שָׁלוֹם مَرْحَبًا",
    "👩‍👩‍👧 🇨🇿 🙂🙂", "   three   spaces   ", "\n\n \n\t\n  x", "a\u00a0b\u3000c\u2028d\u0085e\u180ef", "...!?\r\n--- == ===", "\u0000\u0001\u007f",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "<<|im_start|>", "<think>\u0338 <|im_start",
    "<tool_call>\n<function=f>\n</function>\n</tool_call>", "ﬁﬂ ½ ² ٣٤ Ⅷ", "a" * 300, "=" * 70 + "\n" * 9, " " * 45 + "x",
]  # fmt: skip
BYTES = ["ff", "61c0af62", "eda080", "f09f99", "f09f9978", "e4baf09f9982", "80", "c3", "f4908080", "6869fe0a"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "model/demo/tokenizer.json")
    parser.add_argument("--out", type=Path, default=ROOT / "tests/fixtures/tokenizer_golden.json")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    rng = random.Random(1)
    texts = TEXTS + ["".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 30))) for _ in range(150)]
    data = [text.encode() for text in texts] + [bytes.fromhex(b) for b in BYTES]
    cases = []
    for raw in data:
        ids = tokenizer.encode(raw.decode("utf-8", "replace"), add_special_tokens=False).ids
        cases.append(
            {
                "hex": raw.hex(),
                "ids": ids,
                "text": tokenizer.decode(ids, skip_special_tokens=False),
                "text_without_special": tokenizer.decode(ids, skip_special_tokens=True),
            }
        )
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    args.out.write_text('{"made_by": "scripts/make_tokenizer_golden.py", "cases": [\n' + lines + "\n]}\n")
    print(f"{len(cases)} cases, {sum(len(c['ids']) for c in cases)} ids")


if __name__ == "__main__":
    main()

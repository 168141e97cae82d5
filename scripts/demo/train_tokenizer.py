#!/usr/bin/env python3
"""Trains the demo model's tokenizer: the algorithm and the added tokens of Qwen3.5, with a vocabulary of its own.

Byte-level BPE over the collected text. The added tokens take the top ids in Qwen3.5's order, so that code which
relies on their names, their order or their "special" flags meets the same situation as with the real model.
"""

import argparse
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

VOCABULARY = 4096
# Qwen3.5's splitting rule; unlike the one of Qwen2 and Qwen3 it keeps combining marks (\p{M}) inside words.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
# Atomic when encoding, yet kept when special tokens are skipped in decoding.
PLAIN = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
]  # fmt: skip
ADDED = SPECIAL + PLAIN


def empty_tokenizer():
    """Returns the pipeline without a vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def training_texts(collected, chat_texts):
    """Yields what the merges are counted on; the chat texts bring the wording of questions and answers."""
    for book in collected["books"].values():
        for chapter in book:
            yield "\n".join(chapter)
    for entry in collected["entries"]:
        yield entry["term"] + "\n" + entry["text"]
    yield from chat_texts


def train(texts):
    """Learns the merges, then appends the added tokens so that the total is exactly VOCABULARY."""
    tokenizer = empty_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(ADDED),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(name, special=name in SPECIAL, normalized=False) for name in ADDED])
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"vocabulary has {tokenizer.get_vocab_size()} entries; the text is too small for {VOCABULARY}")
    return tokenizer


def tokenizer_config(tokenizer):
    """Returns tokenizer_config.json: what a chat client needs to know about the added tokens."""
    added = {
        str(tokenizer.token_to_id(name)): {
            "content": name,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": name in SPECIAL,
        }
        for name in ADDED
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 8192,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def generation_config(tokenizer):
    """Returns generation_config.json: a chat turn may end in either of two tokens."""
    end_of_text, end_of_turn = (tokenizer.token_to_id(name) for name in ("<|endoftext|>", "<|im_end|>"))
    return {
        "bos_token_id": end_of_text,
        "do_sample": True,
        "eos_token_id": [end_of_turn, end_of_text],
        "pad_token_id": end_of_text,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.9,
    }


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="JSON file written by collect_text.py")
    parser.add_argument("--out", type=Path, required=True, help="model folder to write the tokenizer files to")
    args = parser.parse_args()
    from chat_samples import Samples, text_of  # here, so that chat_samples can be imported without this file

    collected = json.loads(args.text.read_text())
    samples = Samples(collected, seed=1)
    tokenizer = train(training_texts(collected, (text_of(samples.draw()) for _ in range(3000))))
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    write_json(args.out / "tokenizer_config.json", tokenizer_config(tokenizer))
    write_json(args.out / "generation_config.json", generation_config(tokenizer))
    print(f"{tokenizer.get_vocab_size()} tokens; <|im_end|> is {tokenizer.token_to_id('<|im_end|>')}")


if __name__ == "__main__":
    main()

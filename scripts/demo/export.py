#!/usr/bin/env python3
"""Writes a training checkpoint as a model folder in the layout of the published Qwen3.5 models.

The folder must hold the tokenizer already: the ids of the added tokens go into config.json.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from model import Config

PREFIX = "model.language_model."
# The published checkpoints keep these two in full precision, everything else in BF16.
FULL_PRECISION = ("A_log", "linear_attn.norm.weight")
POSITIONS = 8192


def text_config(config, end_of_text):
    """Returns the nested text_config with every field that the published files have."""
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "eos_token_id": end_of_text,
        "full_attention_interval": 4,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": config.intermediate_size,
        "layer_types": config.layer_types,
        "linear_conv_kernel_dim": config.linear_conv_kernel_dim,
        "linear_key_head_dim": config.linear_key_head_dim,
        "linear_num_key_heads": config.linear_num_key_heads,
        "linear_num_value_heads": config.linear_num_value_heads,
        "linear_value_head_dim": config.linear_value_head_dim,
        "max_position_embeddings": POSITIONS,
        "mlp_only_layers": [],
        "model_type": "qwen3_5_text",
        "mtp_num_hidden_layers": 0,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": config.num_attention_heads,
        "num_hidden_layers": len(config.layer_types),
        "num_key_value_heads": config.num_key_value_heads,
        "rms_norm_eps": config.rms_norm_eps,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": config.vocab_size,
        "mamba_ssm_dtype": "float32",
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "rope_type": "default",
            "rope_theta": int(config.rope_theta),
            "partial_rotary_factor": config.partial_rotary_factor,
        },
    }


def model_config(config, tokenizer):
    """Returns config.json; there is no vision_config, since there is no vision tower."""
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "image_token_id": tokenizer.token_to_id("<|image_pad|>"),
        "model_type": "qwen3_5",
        "text_config": text_config(config, tokenizer.token_to_id("<|endoftext|>")),
        "tie_word_embeddings": True,
        "video_token_id": tokenizer.token_to_id("<|video_pad|>"),
        "vision_end_token_id": tokenizer.token_to_id("<|vision_end|>"),
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
    }


def stored(name, weight):
    """Returns a weight in the number format of the published files."""
    wanted = torch.float32 if name.endswith(FULL_PRECISION) else torch.bfloat16
    return weight.detach().to(wanted).contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="file written by train_model.py")
    parser.add_argument("--out", type=Path, required=True, help="model folder that holds the tokenizer")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    checkpoint = torch.load(args.checkpoint, weights_only=True)
    weights = {PREFIX + name: stored(name, weight) for name, weight in checkpoint["model"].items()}
    target = args.out / "model.safetensors"
    save_file(weights, str(target), metadata={"format": "pt"})
    target.chmod(0o644)  # the library makes files that only their owner can read
    config = model_config(Config(vocab_size=tokenizer.get_vocab_size()), tokenizer)
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    parameters = sum(weight.numel() for weight in weights.values())
    print(f"{len(weights)} tensors, {parameters:,} parameters, trained on {checkpoint['tokens']:,} tokens")


if __name__ == "__main__":
    main()

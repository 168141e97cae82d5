"""Loads a checkpoint folder into transformers' implementation, the independent reference for this project."""

import json

import torch
from safetensors.torch import load_file
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

NOT_ARGUMENTS = ("attn_output_gate", "full_attention_interval", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings")


def load_reference(folder):
    """Returns the text model in float32 with eager attention, and the config it was made from.

    The weights are widened, not rounded again; the multi-token-prediction head is left out, because transformers has
    no code for it. Any other missing or unexpected tensor is an error.
    """
    text = json.loads((folder / "config.json").read_text())["text_config"]
    config = Qwen3_5TextConfig(**{key: value for key, value in text.items() if key not in (*NOT_ARGUMENTS, "dtype")})
    config._attn_implementation = "eager"
    model = Qwen3_5ForCausalLM(config).to(torch.float32).eval()
    weights = {}
    for name, weight in load_file(str(folder / "model.safetensors")).items():
        if not name.startswith(("mtp.", "model.visual.")):
            weights[name.replace("model.language_model.", "model.", 1)] = weight.to(torch.float32)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not (name == "lm_head.weight" and text["tie_word_embeddings"])]
    if missing or unexpected:
        raise SystemExit(f"tensors do not match: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model, text


@torch.no_grad()
def all_logits(model, ids):
    """Returns the logits of every position, computed in one call without a cache."""
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


@torch.no_grad()
def stepwise_logits(model, ids):
    """Returns the same logits from one call per token over the cache: the recurrent path instead of the chunked one."""
    cache, rows = None, []
    for token in ids:
        out = model(input_ids=torch.tensor([[token]]), cache=cache, use_cache=True)
        cache = out.past_key_values
        rows.append(out.logits[0, -1])
    return torch.stack(rows)


@torch.no_grad()
def greedy(model, ids, count, stop=()):
    """Returns up to count tokens, each the arg-max of its position."""
    cache, feed, made = None, ids, []
    while len(made) < count:
        out = model(input_ids=torch.tensor([feed]), cache=cache, use_cache=True)
        cache = out.past_key_values
        token = int(out.logits[0, -1].argmax())
        made.append(token)
        if token in stop:
            break
        feed = [token]
    return made

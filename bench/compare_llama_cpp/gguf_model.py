# SPDX-License-Identifier: Apache-2.0
"""A Qwen3.5 checkpoint as GGUF of architecture `qwen35`: names, transforms, metadata.

What changes on the way: 1 is added to the norms that the checkpoint stores around zero; A_log
becomes -exp(A_log); the convolution loses its middle dimension; norms, convolution and the vectors
of the recurrence are F32; value heads go from grouped order (head j*r + i of key head j) to tiled
order (i*kh + j), which is a change where there are more value heads than key heads.
Matrices, the embedding and the small gate projections among them, take the file's type.
"""
import numpy as np

import gguf
from blocks import encode, widen


class Shape:
    """Sizes of a model, from its config.json."""

    def __init__(self, config):
        text = config.get("text_config", config)
        self.text = text
        self.layers = text["num_hidden_layers"]
        self.hidden = text["hidden_size"]
        self.vocab = text["vocab_size"]
        self.tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
        self.key_heads = text["linear_num_key_heads"]
        self.value_heads = text["linear_num_value_heads"]
        self.key_dim = text["linear_key_head_dim"]
        self.value_dim = text["linear_value_head_dim"]
        self.recurrent = [kind == "linear_attention" for kind in text["layer_types"]]

    def value_head_order(self):
        """order[p] = the checkpoint's value head that lies at place p of the GGUF file."""
        ratio = self.value_heads // self.key_heads
        return [j * ratio + i for i in range(ratio) for j in range(self.key_heads)]


def _array(dtype, shape, data):
    return np.frombuffer(data, dtype={"F32": "<u4", "BF16": "<u2"}[dtype]).reshape(shape)


class _Transforms:
    """Each takes (dtype, shape, bytes) and gives the same of what the GGUF file stores."""

    def __init__(self, shape):
        order = np.array(shape.value_head_order())
        self._in_order = bool((order == np.arange(len(order))).all())
        self._heads = order
        lanes = np.arange(shape.value_dim)
        self._channels = (order[:, None] * shape.value_dim + lanes).reshape(-1)
        self._first_value_row = 2 * shape.key_heads * shape.key_dim

    def _rows(self, tensor, rows, first=0):
        if self._in_order:
            return tensor
        dtype, shape, data = tensor
        array = _array(dtype, shape, data)
        return dtype, shape, np.concatenate([array[:first], array[first:][rows]]).tobytes()

    def same(self, tensor):
        return tensor

    def plus_one(self, tensor):
        dtype, shape, data = tensor
        return "F32", shape, (widen(dtype, data) + np.float32(1)).tobytes()

    def negative_exp(self, tensor):
        dtype, shape, data = self.heads(tensor)
        return "F32", shape, (-np.exp(widen(dtype, data))).astype("<f4").tobytes()

    def heads(self, tensor):
        return self._rows(tensor, self._heads)

    def channels(self, tensor):
        return self._rows(tensor, self._channels)

    def value_channels(self, tensor):
        return self._rows(tensor, self._channels, self._first_value_row)

    def conv(self, tensor):
        dtype, (channels, _, taps), data = self.value_channels(tensor)
        return dtype, (channels, taps), data

    def columns(self, tensor):
        if self._in_order:
            return tensor
        dtype, shape, data = tensor
        return dtype, shape, np.ascontiguousarray(_array(dtype, shape, data)[:, self._channels]).tobytes()


_FILE = None  # the type that the file is named after

# (name in the checkpoint, name in the file, transform, type) of a layer; then by kind of layer.
_EVERY_LAYER = [
    ("input_layernorm.weight", "attn_norm.weight", "plus_one", "F32"),
    ("post_attention_layernorm.weight", "post_attention_norm.weight", "plus_one", "F32"),
    ("mlp.gate_proj.weight", "ffn_gate.weight", "same", _FILE),
    ("mlp.up_proj.weight", "ffn_up.weight", "same", _FILE),
    ("mlp.down_proj.weight", "ffn_down.weight", "same", _FILE),
]
_RECURRENT = [
    ("linear_attn.in_proj_qkv.weight", "attn_qkv.weight", "value_channels", _FILE),
    ("linear_attn.in_proj_z.weight", "attn_gate.weight", "channels", _FILE),
    ("linear_attn.in_proj_a.weight", "ssm_alpha.weight", "heads", _FILE),
    ("linear_attn.in_proj_b.weight", "ssm_beta.weight", "heads", _FILE),
    ("linear_attn.conv1d.weight", "ssm_conv1d.weight", "conv", "F32"),
    ("linear_attn.A_log", "ssm_a", "negative_exp", "F32"),
    ("linear_attn.dt_bias", "ssm_dt.bias", "heads", "F32"),
    ("linear_attn.norm.weight", "ssm_norm.weight", "same", "F32"),
    ("linear_attn.out_proj.weight", "ssm_out.weight", "columns", _FILE),
]
_ATTENTION = [
    ("self_attn.q_proj.weight", "attn_q.weight", "same", _FILE),
    ("self_attn.k_proj.weight", "attn_k.weight", "same", _FILE),
    ("self_attn.v_proj.weight", "attn_v.weight", "same", _FILE),
    ("self_attn.o_proj.weight", "attn_output.weight", "same", _FILE),
    ("self_attn.q_norm.weight", "attn_q_norm.weight", "plus_one", "F32"),
    ("self_attn.k_norm.weight", "attn_k_norm.weight", "plus_one", "F32"),
]


def _names(shape):
    """(name in the checkpoint, name in the file, transform, type) of every tensor."""
    yield "model.embed_tokens.weight", "token_embd.weight", "same", _FILE
    yield "model.norm.weight", "output_norm.weight", "plus_one", "F32"
    if not shape.tied:
        yield "lm_head.weight", "output.weight", "same", _FILE
    for layer, recurrent in enumerate(shape.recurrent):
        for source, target, transform, kind in _EVERY_LAYER + (_RECURRENT if recurrent else _ATTENTION):
            yield f"model.layers.{layer}.{source}", f"blk.{layer}.{target}", transform, kind


def _chunks(checkpoint, source, transform, kind):
    def chunks():
        dtype, _, data = transform(checkpoint[source])
        yield from encode(kind, dtype, data)
    return chunks


def tensors(checkpoint, file_kind):
    """What gguf.write takes for all tensors of a model."""
    shape = Shape(checkpoint.config)
    transforms = _Transforms(shape)
    listed = []
    for source, target, transform, kind in _names(shape):
        stored = checkpoint[source][1]
        if transform == "conv":
            stored = (stored[0], stored[2])
        kind = kind or file_kind
        listed.append((target, kind, stored,
                       _chunks(checkpoint, source, getattr(transforms, transform), kind)))
    return listed


def _byte_alphabet():
    """The 256 characters that byte-level vocabularies spell bytes with, by byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def _vocabulary(size):
    """As many tokens as the model has rows: id b < 256 is byte b, the others spell their number.

    Prompts are ids, so a token needs no more than a text that no other one has.
    """
    return [*_byte_alphabet()[:size], *(f"t{i}" for i in range(256, size))]


def metadata(config, name):
    """The keys that the peer's loader reads."""
    shape = Shape(config)
    text, rope = shape.text, shape.text["rope_parameters"]
    u32 = gguf.UINT32
    sizes = {
        "block_count": shape.layers,
        "context_length": text["max_position_embeddings"],
        "embedding_length": shape.hidden,
        "feed_forward_length": text["intermediate_size"],
        "attention.head_count": text["num_attention_heads"],
        "attention.head_count_kv": text["num_key_value_heads"],
        "attention.key_length": text["head_dim"],
        "attention.value_length": text["head_dim"],
        "rope.dimension_count": int(text["head_dim"] * rope["partial_rotary_factor"]),
        "ssm.conv_kernel": text["linear_conv_kernel_dim"],
        "ssm.state_size": shape.key_dim,
        "ssm.group_count": shape.key_heads,
        "ssm.time_step_rank": shape.value_heads,
        "ssm.inner_size": shape.value_heads * shape.value_dim,
        "full_attention_interval": text.get("full_attention_interval", 4),
    }
    end = min(text["eos_token_id"], shape.vocab - 1)
    return [
        ("general.architecture", gguf.STRING, "qwen35"),
        ("general.name", gguf.STRING, name),
        *((f"qwen35.{key}", u32, value) for key, value in sizes.items()),
        ("qwen35.attention.layer_norm_rms_epsilon", gguf.FLOAT32, text["rms_norm_eps"]),
        ("qwen35.rope.freq_base", gguf.FLOAT32, float(rope["rope_theta"])),
        ("qwen35.rope.dimension_sections", gguf.INT32, [*rope["mrope_section"], 0]),
        ("tokenizer.ggml.model", gguf.STRING, "gpt2"),
        ("tokenizer.ggml.pre", gguf.STRING, "qwen35"),
        ("tokenizer.ggml.tokens", gguf.STRING, _vocabulary(shape.vocab)),
        ("tokenizer.ggml.token_type", gguf.INT32, [1] * shape.vocab),
        ("tokenizer.ggml.merges", gguf.STRING, []),
        ("tokenizer.ggml.eos_token_id", u32, end),
        ("tokenizer.ggml.add_bos_token", gguf.BOOL, False),
    ]


def write_model(checkpoint, kind, path, name):
    """Writes a checkpoint (safetensors.Checkpoint) as BF16, Q8_0 or Q4_0."""
    gguf.write(path, metadata(checkpoint.config, name), tensors(checkpoint, kind))

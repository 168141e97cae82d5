"""The Qwen3.5 text model in plain torch, written for training on a CPU.

Parameter names are those of the published checkpoints, so export is a matter of prefixes and number formats. The Gated
DeltaNet layers use the chunked form: a loop over chunks of 64 tokens instead of one over tokens.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

CHUNK = 64


@dataclass
class Config:
    """Dimensions of the demo model, under the names of config.json."""

    vocab_size: int = 4096
    hidden_size: int = 256
    intermediate_size: int = 512
    num_attention_heads: int = 2
    num_key_value_heads: int = 1
    head_dim: int = 256
    linear_num_key_heads: int = 1
    linear_num_value_heads: int = 2
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    partial_rotary_factor: float = 0.25
    layer_types: list = field(default_factory=lambda: ["linear_attention"] * 3 + ["full_attention"])


class ZeroCentredNorm(nn.Module):
    """RMS norm whose weight is stored as the difference from one."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), 1 + self.weight, self.eps)


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def unit(x):
    """Scales vectors to length one the way the reference does: epsilon inside the root of the sum."""
    x = x.float()
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def gated_delta_rule(q, k, v, beta, g):
    """Runs S <- exp(g) S; S <- S + k (beta (v - S^T k))^T; o = S^T q over time, chunk by chunk.

    Shapes: q, k [N, T, dk] (q scaled, both of unit length before that), v [N, T, dv], beta, g [N, T]; T a multiple of
    CHUNK. Only differences of cumulated decays are exponentiated, so nothing can overflow.
    """
    n, length, dk = k.shape
    q, k, v = (x.float().view(n, length // CHUNK, CHUNK, -1) for x in (q, k, v))
    beta = beta.float().view(n, -1, CHUNK, 1)
    decay = g.view(n, -1, CHUNK).cumsum(-1)
    causal = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    between = (decay.unsqueeze(-1) - decay.unsqueeze(-2)).masked_fill(~causal, -torch.inf).exp()
    decay = decay.unsqueeze(-1)
    key_beta = k * beta
    system = (key_beta @ k.transpose(-1, -2) * between).tril(-1)
    right = torch.cat([v * beta, key_beta * decay.exp()], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    fresh, from_state = solved.split([v.shape[-1], dk], -1)
    inside = q @ k.transpose(-1, -2) * between
    query = q * decay.exp()
    last = decay[:, :, -1:, :]
    key_out = (k * (last - decay).exp()).transpose(-1, -2)
    last = last.exp()
    state = torch.zeros(n, dk, v.shape[-1])
    outputs = []
    for c in range(length // CHUNK):
        written = fresh[:, c] - from_state[:, c] @ state
        outputs.append(query[:, c] @ state + inside[:, c] @ written)
        state = state * last[:, c] + key_out[:, c] @ written
    return torch.stack(outputs, 1).reshape(n, length, -1)


class GatedRmsNorm(nn.Module):
    """Plain-weight RMS norm over one value head, then the silu gate."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x, gate):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps) * F.silu(gate.float())


class Conv(nn.Module):
    """Causal depthwise convolution as a sum of shifted products: on a CPU that beats the general operator."""

    def __init__(self, channels, taps):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, taps) * 0.2)
        with torch.no_grad():
            self.weight[:, 0, -1] += 0.8

    def forward(self, x):
        taps = self.weight.shape[-1]
        padded = F.pad(x, (0, 0, taps - 1, 0))
        return sum(padded[:, j : j + x.shape[1]] * self.weight[:, 0, j] for j in range(taps))


class LinearAttention(nn.Module):
    """Gated DeltaNet mixer."""

    # Decay time constants in tokens at the start of training: one long and one short memory per layer.
    MEMORIES = (400.0, 24.0)

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.key_heads, self.value_heads = config.linear_num_key_heads, config.linear_num_value_heads
        self.key_size = config.linear_num_key_heads * config.linear_key_head_dim
        self.value_size = config.linear_num_value_heads * config.linear_value_head_dim
        channels, hidden = 2 * self.key_size + self.value_size, config.hidden_size
        self.in_proj_qkv = nn.Linear(hidden, channels, bias=False)
        self.in_proj_z = nn.Linear(hidden, self.value_size, bias=False)
        self.in_proj_a = nn.Linear(hidden, self.value_heads, bias=False)
        self.in_proj_b = nn.Linear(hidden, self.value_heads, bias=False)
        self.conv1d = Conv(channels, config.linear_conv_kernel_dim)
        self.A_log = nn.Parameter(torch.zeros(self.value_heads))
        rates = torch.tensor([1 / self.MEMORIES[h % len(self.MEMORIES)] for h in range(self.value_heads)])
        self.dt_bias = nn.Parameter(torch.log(torch.expm1(rates)))  # the inverse of softplus
        self.norm = GatedRmsNorm(config.linear_value_head_dim, config.rms_norm_eps)
        self.out_proj = nn.Linear(self.value_size, hidden, bias=False)

    def forward(self, x, _rotation):
        batch, length, _ = x.shape
        mixed = F.silu(self.conv1d(self.in_proj_qkv(x)))
        q, k, v = mixed.split([self.key_size, self.key_size, self.value_size], -1)
        q = unit(self._heads(q, self.key_heads)) * self.config.linear_key_head_dim**-0.5
        k = unit(self._heads(k, self.key_heads))
        repeats = self.value_heads // self.key_heads
        q, k = (y.repeat_interleave(repeats, 1).flatten(0, 1) for y in (q, k))
        v = self._heads(v, self.value_heads).flatten(0, 1)
        beta = torch.sigmoid(self.in_proj_b(x)).transpose(1, 2).flatten(0, 1)
        g = -self.A_log.exp() * F.softplus(self.in_proj_a(x) + self.dt_bias)
        with torch.autocast("cpu", enabled=False):
            o = gated_delta_rule(q, k, v, beta, g.float().transpose(1, 2).flatten(0, 1))
        o = o.view(batch, self.value_heads, length, -1).transpose(1, 2)
        o = self.norm(o, self.in_proj_z(x).view(o.shape))
        return self.out_proj(o.reshape(batch, length, -1))

    @staticmethod
    def _heads(x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def rotation(length, config):
    """Returns cos and sin of the rotary angles, [T, rotary/2]."""
    rotary = int(config.head_dim * config.partial_rotary_factor)
    frequency = config.rope_theta ** (-torch.arange(0, rotary, 2, dtype=torch.float32) / rotary)
    angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x, cos_sin):
    """Turns the pairs (i, i + half) of the first dimensions and passes the rest through."""
    cos, sin = cos_sin
    half = cos.shape[-1]
    first, second, rest = x.split([half, half, x.shape[-1] - 2 * half], -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


class FullAttention(nn.Module):
    """Softmax attention whose output is gated before the last projection."""

    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        hidden, size = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(hidden, 2 * self.heads * size, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * size, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * size, bias=False)
        self.o_proj = nn.Linear(self.heads * size, hidden, bias=False)
        self.q_norm = ZeroCentredNorm(size, config.rms_norm_eps)
        self.k_norm = ZeroCentredNorm(size, config.rms_norm_eps)

    def forward(self, x, cos_sin):
        batch, length, _ = x.shape
        q, gate = self.q_proj(x).view(batch, length, self.heads, -1).chunk(2, -1)
        k = self.k_proj(x).view(batch, length, self.kv_heads, -1)
        v = self.v_proj(x).view(batch, length, self.kv_heads, -1).transpose(1, 2)
        q = rotate(self.q_norm(q).transpose(1, 2), cos_sin)
        k = rotate(self.k_norm(k).transpose(1, 2), cos_sin)
        repeats = self.heads // self.kv_heads
        k, v = (y.repeat_interleave(repeats, 1) for y in (k, v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.o_proj((o * torch.sigmoid(gate)).reshape(batch, length, -1))


class Layer(nn.Module):
    def __init__(self, config, kind):
        super().__init__()
        self.input_layernorm = ZeroCentredNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = ZeroCentredNorm(config.hidden_size, config.rms_norm_eps)
        if kind == "full_attention":
            self.self_attn = FullAttention(config)
        else:
            self.linear_attn = LinearAttention(config)
        self.mlp = Mlp(config)

    def forward(self, x, cos_sin):
        mixer = self.self_attn if hasattr(self, "self_attn") else self.linear_attn
        x = x + mixer(self.input_layernorm(x), cos_sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    """The whole text model with tied embeddings."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, kind) for kind in config.layer_types)
        self.norm = ZeroCentredNorm(config.hidden_size, config.rms_norm_eps)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02 if "embed" in name else 0.5 / math.sqrt(weight.shape[1]))

    def forward(self, ids):
        """Returns logits [B, T, V]; any length, padded inside to whole chunks."""
        length = ids.shape[1]
        ids = F.pad(ids, (0, -length % CHUNK))
        x = self.embed_tokens(ids)
        cos_sin = rotation(ids.shape[1], self.config)
        for layer in self.layers:
            x = layer(x, cos_sin)
        return F.linear(self.norm(x[:, :length]), self.embed_tokens.weight)

# SPDX-License-Identifier: Apache-2.0
"""Q8_0 and Q4_0: blocks of 32 values with one fp16 scale.

Q8_0: d = max|x| / 127, q = round(x / d), halves away from zero; stored d, 32 x int8.
Q4_0: m = the value of largest magnitude, d = m / -8, q = min(15, floor(x / d + 8.5)), so that m
itself is q = 0; stored d, then byte i = q[i] + 16 * q[i + 16].
Quotients are taken with the unrounded d, as the format's reference quantiser does.
"""
import numpy as np

BLOCK = 32
# Rows at a time: large enough for numpy's loops, small enough for the caches and for memory.
CHUNK_VALUES = 1 << 21


def _inverse(scale):
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def q8_0(values):
    """float32 values (a multiple of 32) to bytes."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    quotient = blocks * _inverse(scale)[:, None]
    out = np.empty((len(blocks), 34), dtype=np.uint8)
    out[:, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
    rounded = np.trunc(quotient + np.copysign(np.float32(0.5), quotient))
    out[:, 2:] = rounded.astype(np.int8).view(np.uint8)
    return out.tobytes()


def q4_0(values):
    """float32 values (a multiple of 32) to bytes."""
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)[:, 0]
    scale = largest / np.float32(-8)
    shifted = blocks * _inverse(scale)[:, None] + np.float32(8.5)
    nibbles = np.minimum(shifted.astype(np.uint8), 15)
    out = np.empty((len(blocks), 18), dtype=np.uint8)
    out[:, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
    out[:, 2:] = nibbles[:, :16] | (nibbles[:, 16:] << 4)
    return out.tobytes()


QUANTISERS = {"Q8_0": q8_0, "Q4_0": q4_0}


def widen(dtype, data):
    """A tensor's bytes as float32."""
    if dtype == "F32":
        return np.frombuffer(data, dtype="<f4")
    if dtype == "BF16":
        return (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    raise ValueError(f"{dtype} weights are not read here")


def encode(kind, dtype, data):
    """Yields a tensor in another type, chunk by chunk. `data` is row-major and fills blocks."""
    if kind == "BF16" and dtype == "BF16":
        yield data
        return
    size = {"F32": 4, "BF16": 2}[dtype]
    for begin in range(0, len(data), CHUNK_VALUES * size):
        values = widen(dtype, data[begin:begin + CHUNK_VALUES * size])
        yield values.tobytes() if kind == "F32" else QUANTISERS[kind](values)

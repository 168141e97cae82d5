# SPDX-License-Identifier: Apache-2.0
"""The GGUF writer against the format's definition. What needs numpy is skipped where it is missing."""
import json
import math
import os
import pathlib
import struct
import tempfile
import unittest

import gguf

try:
    import numpy as np
except ImportError:
    np = None
else:
    import blocks
    import gguf_model
    from safetensors import Checkpoint


def scratch():
    return tempfile.TemporaryDirectory()


class Container(unittest.TestCase):
    METADATA = [("a.string", gguf.STRING, "käse"), ("a.count", gguf.UINT32, 1 << 31),
                ("a.real", gguf.FLOAT32, 0.5), ("a.flag", gguf.BOOL, True),
                ("a.sections", gguf.INT32, [11, -11, 10, 0]), ("a.tokens", gguf.STRING, ["x", "", "yz"]),
                ("a.nothing", gguf.STRING, [])]

    def test_what_was_written_is_read_back(self):
        values = struct.pack("<6f", *range(6))
        with scratch() as folder:
            path = os.path.join(folder, "file")
            gguf.write(path, self.METADATA, [
                ("first", "F32", (2, 3), lambda: [values[:8], values[8:]]),
                ("second", "Q8_0", (1, 32), lambda: [bytes(range(34))]),
                ("third", "BF16", (5,), lambda: [b"0123456789"])])
            metadata, tensors = gguf.read(path)
        self.assertEqual(metadata, {key: value for key, _, value in self.METADATA})
        self.assertEqual(tensors, {"first": ("F32", (2, 3), values),
                                   "second": ("Q8_0", (1, 32), bytes(range(34))),
                                   "third": ("BF16", (5,), b"0123456789")})

    def test_the_bytes_are_those_of_the_definition(self):
        with scratch() as folder:
            path = os.path.join(folder, "file")
            gguf.write(path, [("k", gguf.UINT32, 7)], [("t", "F32", (1, 2), lambda: [b"abcdefgh"])])
            data = pathlib.Path(path).read_bytes()
        head = (b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
                + struct.pack("<Q", 1) + b"k" + struct.pack("<II", 4, 7)
                + struct.pack("<Q", 1) + b"t" + struct.pack("<IQQIQ", 2, 2, 1, 0, 0))
        self.assertEqual(data[:len(head)], head)
        begin = math.ceil(len(head) / 32) * 32
        self.assertEqual(data[begin:], b"abcdefgh" + bytes(24))

    def test_a_tensor_of_another_size_than_its_shape_is_refused(self):
        with scratch() as folder, self.assertRaisesRegex(ValueError, "t: 3 bytes, not 4"):
            gguf.write(os.path.join(folder, "file"), [], [("t", "F32", (1,), lambda: [b"abc"])])

    def test_rows_that_do_not_fill_blocks_are_refused(self):
        with self.assertRaisesRegex(ValueError, "33 values do not fill Q4_0 blocks of 32"):
            gguf.tensor_bytes("Q4_0", (2, 33))


@unittest.skipIf(np is None, "numpy is missing")
class Blocks(unittest.TestCase):
    def rows(self):
        random = np.random.default_rng(1)
        rows = random.normal(size=(64, 32)).astype(np.float32)
        rows[1] = 0
        rows[2] = np.arange(32) - 16  # its largest magnitude is negative
        rows[3] = 5  # all the same
        rows[4] *= np.float32(1e-3)
        return rows

    def test_q8_0_is_the_formula_value_by_value(self):
        for row in self.rows():
            scale = np.abs(row).max() / np.float32(127)
            inverse = np.float32(1) / scale if scale else np.float32(0)
            codes = [int(math.copysign(math.floor(abs(float(x * inverse)) + 0.5), x)) for x in row]
            want = np.float16(scale).tobytes() + struct.pack("<32b", *codes)
            self.assertEqual(blocks.q8_0(row), want)

    def test_q4_0_is_the_formula_value_by_value(self):
        for row in self.rows():
            largest = max(row, key=abs)
            scale = largest / np.float32(-8)
            inverse = np.float32(1) / scale if scale else np.float32(0)
            codes = [min(15, int(x * inverse + np.float32(8.5))) for x in row]
            want = np.float16(scale).tobytes() + bytes(codes[i] + 16 * codes[i + 16] for i in range(16))
            self.assertEqual(blocks.q4_0(row), want)

    def test_chunks_are_the_whole(self):
        values = np.arange(256, dtype="<f4") - 100
        size, blocks.CHUNK_VALUES = blocks.CHUNK_VALUES, 64
        try:
            chunks = list(blocks.encode("Q8_0", "F32", values.tobytes()))
        finally:
            blocks.CHUNK_VALUES = size
        self.assertEqual((len(chunks), b"".join(chunks)), (4, blocks.q8_0(values)))


class _TwoKeyHeads:
    """A model with two value heads a key head, whose tensors hold their own row numbers."""

    CONFIG = {"tie_word_embeddings": True, "text_config": {
        "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 32, "vocab_size": 4,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 2,
        "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"]}}

    def __init__(self):
        self.config = self.CONFIG

    def __getitem__(self, name):
        rows = {"in_proj_qkv": 40, "in_proj_z": 32, "conv1d": 40, "in_proj_a": 4, "in_proj_b": 4}
        stem = name.split(".")[-2]
        if name.endswith(("A_log", "dt_bias")):
            return "F32", (4,), np.arange(4, dtype="<f4").tobytes()
        if stem.endswith("norm"):
            return "F32", (32,), np.full(32, 2, dtype="<f4").tobytes()
        shape = (rows.get(stem, 32), 1, 4) if stem == "conv1d" else (rows.get(stem, 32), 32)
        by_row = np.arange(shape[0], dtype="<f4").reshape(-1, *[1] * (len(shape) - 1))
        by_column = np.arange(shape[-1], dtype="<f4")
        values = np.broadcast_to(by_column if stem == "out_proj" else by_row, shape)
        return "F32", shape, np.ascontiguousarray(values).tobytes()


@unittest.skipIf(np is None, "numpy is missing")
class Transforms(unittest.TestCase):
    # Tiled order of the heads 0 1 (key head 0) and 2 3 (key head 1).
    HEADS = [0, 2, 1, 3]

    @classmethod
    def setUpClass(cls):
        cls.tensors = {name: (shape, np.frombuffer(b"".join(chunks()), dtype="<f4").reshape(shape))
                       for name, _, shape, chunks in gguf_model.tensors(_TwoKeyHeads(), "F32")}

    def column(self, name):
        return self.tensors[name][1][:, 0].tolist()

    def test_value_heads_go_from_grouped_to_tiled_order(self):
        lanes = [8.0 * head + i for head in self.HEADS for i in range(8)]
        self.assertEqual(self.column("blk.0.attn_gate.weight"), lanes)
        self.assertEqual(self.column("blk.0.ssm_alpha.weight"), self.HEADS)
        self.assertEqual(self.column("blk.0.ssm_beta.weight"), self.HEADS)
        keys_and_queries = list(range(8))
        for name in ("blk.0.attn_qkv.weight", "blk.0.ssm_conv1d.weight"):
            self.assertEqual(self.column(name), keys_and_queries + [8 + lane for lane in lanes])
        self.assertEqual(self.tensors["blk.0.ssm_out.weight"][1][0].tolist(), lanes)
        self.assertEqual(self.tensors["blk.0.ssm_dt.bias"][1].tolist(), self.HEADS)

    def test_the_convolution_loses_its_middle_dimension(self):
        self.assertEqual(self.tensors["blk.0.ssm_conv1d.weight"][0], (40, 4))

    def test_norms_gain_one_but_for_the_gated_one(self):
        for name, value in (("output_norm", 3), ("blk.0.attn_norm", 3), ("blk.1.post_attention_norm", 3),
                            ("blk.1.attn_q_norm", 3), ("blk.1.attn_k_norm", 3), ("blk.0.ssm_norm", 2)):
            self.assertEqual(set(self.tensors[name + ".weight"][1].tolist()), {value}, name)

    def test_a_log_becomes_its_negative_exponential(self):
        np.testing.assert_allclose(self.tensors["blk.0.ssm_a"][1], -np.exp(np.float32(self.HEADS)), rtol=1e-6)

    def test_a_tied_head_has_no_tensor_of_its_own(self):
        self.assertNotIn("output.weight", self.tensors)
        self.assertIn("blk.1.attn_output.weight", self.tensors)


@unittest.skipIf(np is None, "numpy is missing")
class WholeModel(unittest.TestCase):
    def test_the_tiny_checkpoint_becomes_a_file_that_tells_its_sizes(self):
        tiny = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/tiny"
        with scratch() as folder:
            path = os.path.join(folder, "file")
            gguf_model.write_model(Checkpoint(tiny), "BF16", path, "tiny")
            metadata, tensors = gguf.read(path)
        text = json.loads((tiny / "config.json").read_text())["text_config"]
        self.assertEqual(metadata["qwen35.block_count"], text["num_hidden_layers"])
        self.assertEqual(metadata["qwen35.rope.dimension_count"], 8)
        self.assertEqual(metadata["qwen35.ssm.inner_size"], 64)
        self.assertEqual(len(metadata["tokenizer.ggml.tokens"]), text["vocab_size"])
        kind, shape, data = tensors["token_embd.weight"]
        self.assertEqual((kind, shape), ("BF16", (text["vocab_size"], text["hidden_size"])))
        self.assertEqual(data, bytes(Checkpoint(tiny)["model.embed_tokens.weight"][2]))


if __name__ == "__main__":
    unittest.main()

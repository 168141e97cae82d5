# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint directory, mapped and not copied."""
import json
import mmap
import pathlib
import struct


class Checkpoint:
    """All tensors of the `*.safetensors` files of a directory, and its config.json."""

    def __init__(self, directory):
        directory = pathlib.Path(directory)
        self.config = json.loads((directory / "config.json").read_text())
        self._tensors = {}
        for path in sorted(directory.glob("*.safetensors")):
            self._add(path)
        if not self._tensors:
            raise FileNotFoundError(f"{directory}: holds no *.safetensors")

    def _add(self, path):
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        header_bytes = struct.unpack_from("<Q", data)[0]
        base = 8 + header_bytes
        for name, entry in json.loads(bytes(data[8:base])).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensor = (entry["dtype"], tuple(entry["shape"]), data[base + begin:base + end])
                self._tensors[name.replace("model.language_model.", "model.", 1)] = tensor

    def __contains__(self, name):
        return name in self._tensors

    def __getitem__(self, name):
        """(dtype, shape, bytes) of a tensor; names begin with `model.` whatever the file says."""
        return self._tensors[name]

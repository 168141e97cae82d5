# SPDX-License-Identifier: Apache-2.0
"""GGUF containers, version 3: written tensor by tensor, read back for the tests.

Layout: magic, version, counts; typed metadata; one entry a tensor (name, shape with the fastest
dimension first, type, offset); padding; the tensors, each on a multiple of 32 bytes.
"""
import struct

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32

# Types of metadata values.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9

# Tensor types: number in the file, values a block, bytes a block.
TENSOR_TYPES = {"F32": (0, 1, 4), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "BF16": (30, 1, 2)}
TENSOR_NAMES = {number: name for name, (number, _, _) in TENSOR_TYPES.items()}

_PACKED = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}


def tensor_bytes(kind, shape):
    """Bytes of a tensor whose rows (the last number of `shape`, which is row-major) fill blocks."""
    _, block, size = TENSOR_TYPES[kind]
    if shape[-1] % block:
        raise ValueError(f"rows of {shape[-1]} values do not fill {kind} blocks of {block}")
    count = 1
    for extent in shape:
        count *= extent
    return count // block * size


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _scalar(kind, value):
    return _string(value) if kind == STRING else struct.pack(_PACKED[kind], value)


def _metadata(key, kind, value):
    head = _string(key)
    if isinstance(value, (list, tuple)):
        items = b"".join(_scalar(kind, item) for item in value)
        return head + struct.pack("<IIQ", ARRAY, kind, len(value)) + items
    return head + struct.pack("<I", kind) + _scalar(kind, value)


def _pad(file):
    file.write(b"\0" * (-file.tell() % ALIGNMENT))


def write(path, metadata, tensors):
    """Writes a file.

    metadata: (key, type, value) triples; a list is an array of that type.
    tensors: (name, type name, row-major shape, chunks) with `chunks` a callable that yields the
    tensor's bytes in order, so that only one chunk is in memory at a time.
    Raises ValueError where a tensor yields another number of bytes than its shape needs.
    """
    with open(path, "wb") as file:
        file.write(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(metadata)))
        for key, kind, value in metadata:
            file.write(_metadata(key, kind, value))
        offset = 0
        for name, kind, shape, _ in tensors:
            file.write(_string(name) + struct.pack("<I", len(shape)))
            file.write(struct.pack(f"<{len(shape)}Q", *reversed(shape)))
            file.write(struct.pack("<IQ", TENSOR_TYPES[kind][0], offset))
            offset += tensor_bytes(kind, shape) + -tensor_bytes(kind, shape) % ALIGNMENT
        _pad(file)
        for name, kind, shape, chunks in tensors:
            begin = file.tell()
            for chunk in chunks():
                file.write(chunk)
            if file.tell() - begin != tensor_bytes(kind, shape):
                raise ValueError(f"{name}: {file.tell() - begin} bytes, not {tensor_bytes(kind, shape)}")
            _pad(file)


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    def string(self):
        length = self.unpack("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == ARRAY:
            of, count = self.unpack("<I"), self.unpack("<Q")
            return [self.value(of) for _ in range(count)]
        return self.string() if kind == STRING else self.unpack(_PACKED[kind])


def read(path):
    """A small file whole: ({key: value}, {name: (type name, row-major shape, bytes)})."""
    with open(path, "rb") as file:
        reader = _Reader(file.read())
    if reader.data[:4] != MAGIC:
        raise ValueError(f"{path}: no GGUF file")
    reader.at = 4
    version, tensor_count, key_count = reader.unpack("<IQQ")
    if version != VERSION:
        raise ValueError(f"{path}: GGUF version {version}, not {VERSION}")
    metadata = {}
    for _ in range(key_count):
        key = reader.string()
        metadata[key] = reader.value(reader.unpack("<I"))
    entries = []
    for _ in range(tensor_count):
        name, rank = reader.string(), reader.unpack("<I")
        shape = tuple(reversed([reader.unpack("<Q") for _ in range(rank)]))
        kind, offset = reader.unpack("<IQ")
        entries.append((name, TENSOR_NAMES[kind], shape, offset))
    base = reader.at + -reader.at % ALIGNMENT
    tensors = {}
    for name, kind, shape, offset in entries:
        begin = base + offset
        tensors[name] = (kind, shape, reader.data[begin:begin + tensor_bytes(kind, shape)])
    return metadata, tensors

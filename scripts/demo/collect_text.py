#!/usr/bin/env python3
"""Collects the public-domain English the demo model is trained on.

The texts come from Debian packages, so anyone can get the same bytes:

    apt-get install r-cran-janeaustenr dict-jargon dict-devil

The result is one JSON file: {"books": {title: [chapter, ...]}, "entries": [{source, term, text}, ...]}, where a
chapter is a list of paragraphs with the hard line breaks taken out.
"""

import argparse
import gzip
import json
import re
import struct
import sys
import zlib
from pathlib import Path

AUSTEN_DIR = Path("/usr/lib/R/site-library/janeaustenr/data")
DICT_DIR = Path("/usr/share/dictd")
PACKAGES = "r-cran-janeaustenr dict-jargon dict-devil"
TITLES = {
    "emma": "Emma",
    "mansfieldpark": "Mansfield Park",
    "northangerabbey": "Northanger Abbey",
    "persuasion": "Persuasion",
    "prideprejudice": "Pride and Prejudice",
    "sensesensibility": "Sense and Sensibility",
}
# Typographic marks are folded to ASCII: a vocabulary of 4096 has no room for both spellings of the same word.
ASCII_MARKS = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "--",
        "\u2026": "...",
        "\u00a0": " ",
    }
)


# The line under a jargon term: how it is spoken between slashes, then parts of speech, nothing else.
PRONUNCIATION = re.compile(
    r"^(/[^ ]*/|//|/.{1,40}/)?([,;/ ]*\b("
    r"n|v|vi|vt|adj|adv|interj|excl|pref|prefix|suff|suffix|abbrev|quant|prov|obs|pl"
    r")\b\.?)*[,;. ]*$"
)


class RReader:
    """Reads the part of R's binary (XDR) serialisation that lazy-load data files use."""

    NIL, SYMBOL, PAIRLIST, CHAR, LOGICAL, INTEGER, REAL, STRINGS, LIST, REFERENCE = (
        254,
        1,
        2,
        9,
        10,
        13,
        14,
        16,
        19,
        255,
    )

    def __init__(self, raw):
        self.raw = raw
        self.at = 0
        self.symbols = []

    def read(self):
        """Returns the object of a whole stream: header first, then one value."""
        self._expect_header()
        return self._value()

    def _expect_header(self):
        if self.raw[:2] != b"X\n":
            raise ValueError("not an XDR stream of R")
        self.at = 2
        version = self._int()
        self._int()
        self._int()
        if version >= 3:
            encoding_size = self._int()
            self.at += encoding_size

    def _int(self):
        (value,) = struct.unpack_from(">i", self.raw, self.at)
        self.at += 4
        return value

    def _value(self):
        flags = self._int()
        kind, has_attributes = flags & 0xFF, bool(flags & 0x200)
        if kind == self.NIL:
            return None
        if kind == self.REFERENCE:
            return self.symbols[(flags >> 8) - 1]
        if kind == self.SYMBOL:
            self.symbols.append(self._value())
            return self.symbols[-1]
        if kind == self.CHAR:
            return self._char(flags)
        if kind == self.PAIRLIST:
            return self._pairlist(flags)
        value = self._vector(kind)
        attributes = self._value() if has_attributes else None
        if kind == self.LIST and attributes and "names" in attributes:
            return dict(zip(attributes["names"], value))
        return value

    def _char(self, flags):
        size = self._int()
        if size < 0:
            return ""
        text = self.raw[self.at : self.at + size]
        self.at += size
        # Bit 2 of the level field marks Latin-1; everything else here is ASCII or UTF-8.
        return text.decode("latin-1" if flags >> 12 & 4 else "utf-8")

    def _vector(self, kind):
        count = self._int()
        if kind in (self.STRINGS, self.LIST):
            return [self._value() for _ in range(count)]
        if kind in (self.INTEGER, self.LOGICAL):
            return [self._int() for _ in range(count)]
        if kind == self.REAL:
            values = struct.unpack_from(f">{count}d", self.raw, self.at)
            self.at += 8 * count
            return list(values)
        raise ValueError(f"R object of type {kind} is not handled")

    def _pairlist(self, flags):
        pairs = {}
        while flags & 0xFF == self.PAIRLIST:
            if flags & 0x200:
                self._value()
            tag = self._value() if flags & 0x400 else None
            pairs[tag] = self._value()
            flags = self._int()
        if flags & 0xFF != self.NIL:
            raise ValueError("pairlist does not end in NULL")
        return pairs


def read_austen(folder):
    """Returns {variable: lines} of the lazy-load database: an index of (offset, length) and one zlib block each."""
    index = RReader(zlib.decompress((folder / "Rdata.rdx").read_bytes(), zlib.MAX_WBITS | 32)).read()
    blocks = (folder / "Rdata.rdb").read_bytes()
    books = {}
    for name, (offset, length) in index["variables"].items():
        # Each block starts with its unpacked size in 4 bytes.
        books[name] = RReader(zlib.decompress(blocks[offset + 4 : offset + length])).read()
    return books


def tidy(text):
    """Folds marks and white space so that the same sentence always becomes the same tokens."""
    return re.sub(r"\s+", " ", text.translate(ASCII_MARKS)).strip()


def paragraphs(lines):
    """Joins hard-wrapped lines; a blank line ends a paragraph."""
    kept, current = [], []
    for line in list(lines) + [""]:
        if line.strip():
            current.append(line)
        elif current:
            kept.append(tidy(" ".join(current)))
            current = []
    return kept


def chapters(lines):
    """Splits a novel at its chapter headings and drops the headings, which would only teach numbering."""
    heading = re.compile(r"^\s*(chapter|volume|finis|the end)\b.{0,24}$", re.IGNORECASE)
    result = [[]]
    for paragraph in paragraphs(lines):
        if heading.match(paragraph):
            result.append([])
        elif len(paragraph) > 20:
            result[-1].append(paragraph)
    return [chapter for chapter in result if sum(map(len, chapter)) > 1000]


def jargon_entries(text):
    """Yields (term, definition): a term stands in column one, its definition is indented."""
    term, body = None, []
    for line in text.splitlines() + ["end"]:
        if line and not line[0].isspace():
            if term and not term.startswith("00-database"):
                yield term, body
            term, body = line.strip(), []
        else:
            body.append(line)


def clean_jargon(term, body):
    """Drops the pronunciation line and the cross-reference braces."""
    kept = paragraphs(body)
    if kept and PRONUNCIATION.match(kept[0]):
        kept = kept[1:]
    text = re.sub(r"\{([^{}]*)\}", r"\1", "\n".join(kept))
    text = re.sub(r"^\[[^\]]*\]\s*", "", text)
    return {"source": "jargon", "term": tidy(term), "text": text}


def devil_entries(text):
    """Yields (term, paragraphs): an entry opens with a capitalised word, a comma and a part of speech."""
    opening = re.compile(r"^([A-Z][A-Z'\- ]+), (?:n|v|adj|adv|pp|p)\.\S*\s+(.*)", re.DOTALL)
    term, body = None, []
    for block in re.split(r"\n\s*\n", text):
        match = opening.match(block)
        if match:
            if term:
                yield term, body
            term, body = match.group(1).lower(), [tidy(match.group(2))]
        elif term and not block.startswith("    "):  # the indented verses would break the prose
            body.append(tidy(block))
    if term:
        yield term, body


def read_entries(folder):
    """Returns the entries of both dictionaries that have a definition worth learning from."""
    entries = []
    jargon = gzip.decompress((folder / "jargon.dict.dz").read_bytes()).decode("utf-8", "replace")
    entries += [clean_jargon(term, body) for term, body in jargon_entries(jargon)]
    devil = gzip.decompress((folder / "devil.dict.dz").read_bytes()).decode("latin-1")
    for term, body in devil_entries(devil):
        entries.append({"source": "devil", "term": tidy(term), "text": "\n".join(p for p in body if p)})
    return [entry for entry in entries if len(entry["text"]) > 30]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    if not (AUSTEN_DIR / "Rdata.rdb").exists() or not (DICT_DIR / "jargon.dict.dz").exists():
        sys.exit(f"source texts not found: apt-get install {PACKAGES}")
    books = {TITLES[name]: chapters(lines) for name, lines in read_austen(AUSTEN_DIR).items()}
    entries = read_entries(DICT_DIR)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"books": books, "entries": entries}, ensure_ascii=False, indent=1))
    for title, parts in books.items():
        print(f"{title}: {len(parts)} chapters, {sum(len(p) for c in parts for p in c):,} characters")
    print(f"dictionaries: {len(entries)} entries, {sum(len(e['text']) for e in entries):,} characters")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What is asked of rows of the report: a ratio to the peer, or a figure of cairn's own."""
from statistics import median
from typing import NamedTuple

RATIO, AT_LEAST, AT_MOST = "ratio", "at least", "at most"


class Bar(NamedTuple):
    kind: str
    bar: float
    stage: str  # that measures it
    format: str  # the peer's
    tokens: int = 0  # of the prompt, where the stage has several lengths


def _server(stage, kind, bar):
    return Bar(kind, bar, stage, "Q8_0")


ASKED = {
    **{f"prefill {tokens}, {weights} / {format}{suffix}": Bar(RATIO, bar, stage, format, tokens)
       for tokens in (512, 2048)
       for weights, format, suffix, stage, bar in (
           ("int8", "Q8_0", "", "speed", 5), ("bf16", "BF16", "", "speed", 2.2),
           ("int4", "Q4_0", "", "speed", 3.4), ("int8", "Q8_0", ", AVX2", "avx2", 2))},
    "decode, int8 / Q8_0, AVX2": Bar(RATIO, 1.2, "avx2", "Q8_0"),
    **{f"decode, bytes over reads, {weights}": Bar(AT_LEAST, bar, "speed", format)
       for weights, format, bar in (("bf16", "BF16", 85), ("int8", "Q8_0", 85), ("int4", "Q4_0", 70))},
    **{f"{count} streams decoding together, int8 / Q8_0": _server("streams", RATIO, 3) for count in (4, 8)},
    "W1 default, int8 / Q8_0: time to the first token": _server("W1", RATIO, 20),
    "W1 best settings, int8 / Q8_0: time to the first token": _server("W1", RATIO, 3),
    "W2 default, int8 / Q8_0: time to the first token": _server("W2", RATIO, 10),
    "W5 default, int8 / Q8_0: wall": _server("W5", RATIO, 50),
    "W6 default, int8 / Q8_0: longest gap of the running stream": _server("W6", AT_MOST, 0.15),
    "W6 default, int8 / Q8_0: time to the first token": _server("W6", RATIO, 4),
}


def selected(stages, lengths, formats, server_format):
    """The rows with something asked of them that these options measure."""
    def measured(bar):
        kinds = formats if bar.stage in ("speed", "avx2") else (server_format,)
        return bar.stage in stages and bar.format in kinds and (not bar.tokens or bar.tokens in lengths)
    return [what for what, bar in ASKED.items() if measured(bar)]


def judge(what, ratio, figures):
    """(what is asked of a row, whether it is met); None for what is not asked, or was not measured."""
    if what not in ASKED:
        return None, None
    kind, bar = ASKED[what][:2]
    figure = ratio if kind == RATIO else median(figures) if figures else None
    met = None if figure is None else figure <= bar if kind == AT_MOST else figure >= bar
    return f"{bar:g} x" if kind == RATIO else f"{kind} {bar:g}", met

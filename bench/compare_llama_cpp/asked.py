# SPDX-License-Identifier: Apache-2.0
"""What is asked of rows of the report: a ratio to the peer, or a figure of cairn's own."""
from statistics import median

RATIO, AT_LEAST, AT_MOST = "ratio", "at least", "at most"
ASKED = {
    **{f"prefill {tokens}, {weights}": (RATIO, bar) for tokens in (512, 2048)
       for weights, bar in (("int8 / Q8_0", 5), ("bf16 / BF16", 2.2), ("int4 / Q4_0", 3.4), ("int8 / Q8_0, AVX2", 2))},
    "decode, int8 / Q8_0, AVX2": (RATIO, 1.2),
    **{f"decode, bytes over reads, {weights}": (AT_LEAST, bar)
       for weights, bar in (("bf16", 85), ("int8", 85), ("int4", 70))},
    **{f"{count} streams decoding together, int8 / Q8_0": (RATIO, 3) for count in (4, 8)},
    "W1 default, int8 / Q8_0: time to the first token": (RATIO, 20),
    "W1 best settings, int8 / Q8_0: time to the first token": (RATIO, 3),
    "W2 default, int8 / Q8_0: time to the first token": (RATIO, 10),
    "W5 default, int8 / Q8_0: wall": (RATIO, 50),
    "W6 default, int8 / Q8_0: longest gap of the running stream": (AT_MOST, 0.15),
    "W6 default, int8 / Q8_0: time to the first token": (RATIO, 4),
}


def judge(what, ratio, figures):
    """(what is asked of a row, whether it is met); (None, None) where nothing is, or nothing was measured."""
    kind, bar = ASKED.get(what, (None, None))
    figure = ratio if kind == RATIO else median(figures) if figures else None
    if kind is None or figure is None:
        return None, None
    met = figure <= bar if kind == AT_MOST else figure >= bar
    return f"{bar:g} x" if kind == RATIO else f"{kind} {bar:g}", met

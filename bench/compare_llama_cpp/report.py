# SPDX-License-Identifier: Apache-2.0
"""Rows of figures as Markdown and JSON."""
import json
from statistics import median

from asked import judge


def spread(figures):
    """A median, and between what the figures lie where there are several."""
    text = f"{median(figures):,.4g}"
    return text if len(figures) < 2 else f"{text} ({min(figures):,.4g} to {max(figures):,.4g})"


class Report:
    def __init__(self, facts):
        self._facts = facts  # (what, text) pairs above the table
        self._rows = []

    def add(self, what, unit, peer, cairn, less_is_better=False, note=""):
        """A row. Each side is the list of its figures, one a round, or None where it has none."""
        ratio = None
        if peer and cairn:
            over, under = (peer, cairn) if less_is_better else (cairn, peer)
            ratio = median(over) / median(under) if median(under) else None
        asked, met = judge(what, ratio, cairn)
        self._rows.append({"what": what, "unit": unit, "peer": self._side(peer), "cairn": self._side(cairn),
                           "ratio": ratio, "asked": asked, "met": met, "note": note})

    def missed(self):
        """The rows that are below what is asked."""
        return [row["what"] for row in self._rows if row["met"] is False]

    def not_measured(self, expected):
        """Which of these rows have no figure to be held against what is asked, or are not there."""
        judged = {row["what"] for row in self._rows if row["met"] is not None}
        return [what for what in expected if what not in judged]

    @staticmethod
    def _side(figures):
        return {"median": median(figures), "all": figures} if figures else None

    def fact(self, what, text):
        self._facts.append((what, text))

    def markdown(self):
        def figure(side):
            return "-" if side is None else spread(side["all"])

        def asked(row):
            said = {True: "met", False: "MISSED", None: "not measured"}[row["met"]]
            return "" if row["asked"] is None else f"{row['asked']}: {said}"

        def times(ratio):
            return "-" if ratio is None else f"{ratio:,.4g} x"
        lines = [f"- {what}: {text}" for what, text in self._facts]
        lines += ["", "| | unit | llama.cpp | cairn | ratio | asked | |", "|--|--|--|--|--|--|--|"]
        lines += [f"| {r['what']} | {r['unit']} | {figure(r['peer'])} | {figure(r['cairn'])} | "
                  f"{times(r['ratio'])} | {asked(r)} | {r['note']} |" for r in self._rows]
        return "\n".join(lines) + "\n"

    def json(self):
        return json.dumps({"facts": dict(self._facts), "rows": self._rows}, indent=1)

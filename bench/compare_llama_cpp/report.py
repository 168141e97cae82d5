# SPDX-License-Identifier: Apache-2.0
"""Rows of figures as Markdown and JSON."""
import json


class Report:
    def __init__(self, facts):
        self._facts = facts  # (what, text) pairs above the table
        self._rows = []

    def add(self, what, unit, peer, cairn, less_is_better=False, note=""):
        """A row; a side that has no figure is None."""
        ratio = None
        if peer and cairn:
            ratio = peer / cairn if less_is_better else cairn / peer
        self._rows.append({"what": what, "unit": unit, "peer": peer, "cairn": cairn, "ratio": ratio,
                           "note": note})

    def fact(self, what, text):
        self._facts.append((what, text))

    def markdown(self):
        def figure(value, suffix=""):
            return "-" if value is None else f"{value:,.4g}{suffix}"
        lines = [f"- {what}: {text}" for what, text in self._facts]
        lines += ["", "| | unit | llama.cpp | cairn | ratio | |", "|--|--|--|--|--|--|"]
        lines += [f"| {r['what']} | {r['unit']} | {figure(r['peer'])} | {figure(r['cairn'])} | "
                  f"{figure(r['ratio'], ' x')} | {r['note']} |" for r in self._rows]
        return "\n".join(lines) + "\n"

    def json(self):
        return json.dumps({"facts": dict(self._facts), "rows": self._rows}, indent=1)

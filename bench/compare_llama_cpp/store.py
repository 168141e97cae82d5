# SPDX-License-Identifier: Apache-2.0
"""Results on disk, a file a sample, so that an interrupted run goes on where it stopped."""
import hashlib
import json
import pathlib


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


class Store:
    """Samples by name; one counts only for the same inputs (programs, model, settings)."""

    def __init__(self, directory, inputs):
        self._directory = pathlib.Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._inputs = inputs

    def sample(self, name, measure):
        """The sample of that name, measured now where it is not there yet."""
        path = self._directory / (name.replace("/", "-") + ".json")
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["inputs"] == self._inputs:
                return kept["value"]
        value = measure()
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"inputs": self._inputs, "value": value}, indent=1))
        temporary.rename(path)
        return value

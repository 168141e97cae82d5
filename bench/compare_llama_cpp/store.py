# SPDX-License-Identifier: Apache-2.0
"""Results on disk, a file a sample, so that an interrupted run goes on where it stopped."""
import hashlib
import json
import pathlib
import sys


def file_digest(*paths):
    """Of the files' bytes, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(pathlib.Path(path).read_bytes()).digest())
    return digest.hexdigest()[:16]


def made_of(path, inputs, make):
    """The file at `path`, made by make(unfinished path) unless it was made of the same inputs."""
    stamp, wanted = path.with_name(path.name + ".inputs"), json.dumps(inputs, sort_keys=True)
    if path.exists() and stamp.exists() and stamp.read_text() == wanted:
        return path
    print(f"writing {path.name}", file=sys.stderr, flush=True)
    stamp.unlink(missing_ok=True)
    unfinished = path.with_suffix(".tmp")
    make(unfinished)
    unfinished.rename(path)
    stamp.write_text(wanted)
    return path


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

# SPDX-License-Identifier: Apache-2.0
"""What the measurements share: priority, a lock against other measurements, a busy neighbour."""
import contextlib
import fcntl
import os
import pathlib
import re
import subprocess
import sys


_AUTOGROUP = pathlib.Path("/proc/self/autogroup")


@contextlib.contextmanager
def priority():
    """Puts this process, and so both programs, ahead of the rest; yields what came of it.

    Where the kernel groups tasks by session, nice only ranks the tasks of a session, and the
    session's own nice ranks it among the others: both are raised, the latter put back at the end.
    """
    said, before = [], None
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
        said.append("both programs at nice -15")
        before = re.search(r"nice (-?\d+)", _AUTOGROUP.read_text()).group(1)
        _AUTOGROUP.write_text("-15")
        said.append("their session, too")
    except (OSError, AttributeError):
        said.append("no more priority was to be had")
    try:
        yield ", ".join(said)
    finally:
        if before is not None:
            _AUTOGROUP.write_text(before)


def cpu_name():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else "unknown"


class Lock:
    """Keeps measurements of several programs apart: a file lock, or none."""

    def __init__(self, path):
        self._path = path

    @contextlib.contextmanager
    def held(self):
        if not self._path:
            yield
            return
        with open(self._path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def busy_neighbour():
    """One program that never sleeps, on the last core that this process may use.

    It has this process's priority, so that the core is shared half and half.
    """
    core = max(os.sched_getaffinity(0))
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                               preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    try:
        yield
    finally:
        process.kill()
        process.wait()

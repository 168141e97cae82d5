#!/usr/bin/env python3
"""The include check finds what it is there to find."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("check_includes.py")


def run(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)


class CheckIncludes(unittest.TestCase):
    def test_an_upward_include_is_found(self):
        result = run({"engine/a.cpp": '#include "actors/runtime.hpp"\n'})
        self.assertEqual(result.returncode, 1)
        self.assertIn("engine/a.cpp", result.stdout)

    def test_a_third_party_outside_its_room_is_found(self):
        self.assertEqual(run({"engine/a.cpp": "#include <caf/all.hpp>\n"}).returncode, 1)
        self.assertEqual(run({"actors/a.cpp": "#include <caf/all.hpp>\n"}).returncode, 0)

    def test_a_third_party_that_leaves_its_room_through_headers_is_found(self):
        files = {
            "http/deep.hpp": "#include <boost/beast/core.hpp>\n",
            "http/server.hpp": '#include "http/deep.hpp"\n',
            "http/a.cpp": '#include "http/server.hpp"\n',
        }
        self.assertEqual(run(files).returncode, 0)
        self.assertEqual(run(files | {"cli/a.cpp": '#include "http/server.hpp"\n'}).returncode, 1)

    def test_http_sees_only_the_public_api(self):
        self.assertEqual(run({"http/a.cpp": '#include "engine/engine.hpp"\n'}).returncode, 0)
        self.assertEqual(run({"http/a.cpp": '#include "engine/batch/batch_loop.hpp"\n'}).returncode, 1)

    def test_relative_includes_are_found(self):
        self.assertEqual(run({"base/a.cpp": '#include "result.hpp"\n'}).returncode, 1)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What the comparison keeps, refuses and reports. Needs neither the peer nor numpy."""
import contextlib
import io
import pathlib
import tempfile
import types
import unittest

import speed
import stages
from asked import ASKED, selected
from report import Report, spread
from servers import Answer, Cairn, Peer
from store import Store, made_of
from workloads import Prompts, newcomer


class Kept(unittest.TestCase):
    def test_a_sample_counts_for_its_inputs_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(Store(folder, {"code": "a"}).sample("x", lambda: 1), 1)
            self.assertEqual(Store(folder, {"code": "a"}).sample("x", lambda: 2), 1)
            self.assertEqual(Store(folder, {"code": "b"}).sample("x", lambda: 3), 3)

    def test_a_model_is_written_again_where_what_it_is_made_of_has_changed(self):
        made = []

        def make(path):
            made.append(path.name)
            path.write_text(str(len(made)))

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            path = pathlib.Path(folder) / "m.gguf"
            for inputs in ({"code": "a"}, {"code": "a"}, {"code": "b"}):
                made_of(path, inputs, make)
            self.assertEqual((len(made), path.read_text()), (2, "2"))


class Probe(unittest.TestCase):
    def program(self, folder, text):
        path = pathlib.Path(folder) / "cairn"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def test_a_format_that_is_missing_is_told_from_a_program_that_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(speed.has_weights(self.program(folder, "exit 0"), "int4"))
            missing = self.program(folder, "echo 'cairn: --weights: int4 not in {bf16,int8}' >&2; exit 2")
            self.assertFalse(speed.has_weights(missing, "int4"))
            for failing in ("echo 'cairn: no memory for int4' >&2; exit 1", "echo 'no memory' >&2; exit 2"):
                with self.assertRaisesRegex(RuntimeError, "no memory"):
                    speed.has_weights(self.program(folder, failing), "int4")


    def test_figures_of_another_form_are_shown_with_their_program(self):
        with tempfile.TemporaryDirectory() as folder:
            for printed, said in (("no JSON", "JSONDecodeError.*no JSON"), ('{"prefill": [{"tokens": 5}]}', "per_s.*5"),
                                  ("[]", "TypeError")):
                setup = types.SimpleNamespace(cairn=self.program(folder, f"echo '{printed}'"), checkpoint="c",
                                              threads=1, cairn_flags=[])
                with self.assertRaisesRegex(RuntimeError, f"(?s)cairn printed what is not understood.*{said}"):
                    speed.cairn_speeds(setup, "int8", (512,))


class _Dying:
    """Streams, but answers no newcomer."""

    name = "cairn"

    def stream(self, prompt, tokens, on_token=None):
        if on_token is None:
            raise ConnectionResetError("gone")
        on_token(16)
        return Answer(0, [0.1 * i for i in range(tokens)], 0, 0, [])


class Newcomer(unittest.TestCase):
    def test_a_server_that_dies_under_it_is_named(self):
        with self.assertRaisesRegex(RuntimeError, "cairn, the newcomer: .*gone"):
            newcomer(_Dying(), Prompts(1000, 1))


class Unexpected(unittest.TestCase):
    """What a server sends that has another form than its interface says."""

    def server(self, side, *lines):
        made = Cairn("x", "m", "int8", 1, "log") if side is Cairn else Peer("x", "m", 1, "log")
        made.post = lambda path, body: io.BytesIO(b"\n".join(lines))
        return made

    def test_an_event_is_shown_with_its_server(self):
        for side, event, said in ((Cairn, b'{"choices": [{"index": 0}]}', "cairn .*token_ids.*index"),
                                  (Cairn, b'{"id": 1}', "cairn .*choices.*id"),
                                  (Cairn, b'{"choices": [], "usage": {"completion_tokens": 7}}', "cairn .*prompt_tok"),
                                  (Cairn, b'[1]', "cairn .*get.*1"), (Cairn, b'{"cut', "cairn .*Decode.*cut"),
                                  (Peer, b'{"stop": true, "timings": {"x": 1}}', "llama-server .*prompt_n.*timings"),
                                  (Peer, b'{"tokens": 5}', "llama-server .*TypeError.*tokens"),
                                  (Peer, b'{"error": {"message": "no room"}}', "llama-server: .*no room")):
            with self.assertRaisesRegex(RuntimeError, said):
                self.server(side, b"data: " + event).stream([1, 2], 1)

    def test_so_is_an_answer(self):
        with self.assertRaisesRegex(RuntimeError, "cairn .*logprobs.*none"):
            self.server(Cairn, b'{"choices": [{"text": "none"}]}').score([1, 2])
        with self.assertRaisesRegex(RuntimeError, "llama-server .*completion_probabilities.*none"):
            self.server(Peer, b'{"content": "none"}').greedy([1, 2], 1)


class Rows(unittest.TestCase):
    def test_a_figure_is_a_median_with_least_and_most(self):
        self.assertEqual(spread([3.0]), "3")
        report = Report([("a", "b")])
        report.add("fast", "tokens/s", [1, 3, 2], [8, 10, 9])
        report.add("slow", "s", [10.0, 20.0, 30.0], [2.0], less_is_better=True, note="n")
        report.add("own", "%", None, [50.0])
        text = report.markdown()
        self.assertIn("| fast | tokens/s | 2 (1 to 3) | 9 (8 to 10) | 4.5 x |", text)
        self.assertIn("| slow | s | 20 (10 to 30) | 2 | 10 x |  | n |", text)
        self.assertIn("| own | % | - | 50 | - |", text)

    def test_rows_are_held_against_what_is_asked(self):
        report = Report([])
        gap = "W6 default, int8 / Q8_0: longest gap of the running stream"
        report.add("prefill 512, int8 / Q8_0", "tokens/s", [100], [500])
        report.add("prefill 2048, int8 / Q8_0", "tokens/s", [100], [499])
        report.add("decode, bytes over reads, int4", "%", None, [60.0, 71.0, 72.0])
        report.add(gap, "s", [9.0], [0.16], less_is_better=True)
        report.add("decode, bytes over reads, bf16", "%", None, None)
        self.assertEqual(report.missed(), ["prefill 2048, int8 / Q8_0", gap])
        self.assertIn("| 4.99 x | 5 x: MISSED |", report.markdown())
        self.assertIn("at least 85: not measured", report.markdown())

    def test_what_is_asked_and_not_measured_is_told_unless_it_was_not_selected(self):
        report = Report([])
        report.add("prefill 512, int8 / Q8_0", "tokens/s", [100], [500])
        report.add("decode, bytes over reads, int8", "%", None, None)
        missing = "decode, bytes over reads, int8"
        self.assertEqual(report.not_measured(selected(["speed"], (512,), ["Q8_0"], "Q8_0")), [missing])
        self.assertEqual(report.not_measured(selected(["speed"], (512, 2048), ["Q8_0"], "Q8_0")),
                         ["prefill 2048, int8 / Q8_0", missing])
        self.assertEqual(report.not_measured(selected(["same", "long", "busy"], (512,), ["Q8_0"], "Q8_0")), [])
        self.assertEqual(report.not_measured(selected(["W5"], (512,), ["BF16"], "BF16")), [])
        self.assertEqual(report.not_measured(selected(["W5"], (512,), ["BF16"], "Q8_0")),
                         ["W5 default, int8 / Q8_0: wall"])

    def test_each_bar_is_of_one_stage_that_there_is(self):
        everything = selected(stages.STAGES, (512, 2048), ["BF16", "Q8_0", "Q4_0"], "Q8_0")
        self.assertEqual(everything, list(ASKED))


if __name__ == "__main__":
    unittest.main()

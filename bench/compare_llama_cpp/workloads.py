# SPDX-License-Identifier: Apache-2.0
"""What clients do to a server. All prompts are token ids, the same for both programs.

A document is 2,000 tokens in eight paragraphs, a question 50; each begins with the mark token, the
place that a client may point out as a message boundary. 8 tokens are generated.
"""
import random
import statistics
import threading

from servers import FAILURES, Peer

DOCUMENT, PARAGRAPH, QUESTION, GENERATED = 2000, 250, 50, 8
# Where the eight prompts of W2 leave the document, in the order in which they come: a cache that
# were exact to the token would compute 5,580 of their tokens.
LEAVES_AT = (0.68, 0.23, 0.92, 0.40, 1.00, 0.55, 0.86, 0.77)


class Prompts:
    """Random ids that differ for each purpose; the same for the same seed."""

    def __init__(self, vocabulary, seed):
        self._random = random.Random(seed)
        # Byte tokens and the ids that models set aside are left out where there are others.
        self._first, self._last = min(256, vocabulary // 8), int(vocabulary * 0.95)

    def plain(self, length):
        return [self._random.randrange(self._first, self._last) for _ in range(length)]

    def marked(self, length):
        return [Peer.MARK, *self.plain(length - 1)]

    def document(self):
        return [token for _ in range(DOCUMENT // PARAGRAPH) for token in self.marked(PARAGRAPH)]


def _row(answers):
    return {"computed": [a.computed for a in answers], "ttft_s": [a.ttft for a in answers],
            "wall_s": max(a.token_times[-1] for a in answers) - min(a.begin for a in answers)}


def next_question(server, prompts):
    """W1: eight questions about one document, one after another; the third to the eighth count."""
    document, answers = prompts.document(), []
    for _ in range(8):
        answers.append(server.stream(document + prompts.marked(QUESTION), GENERATED, [DOCUMENT]))
    row = _row(answers[2:])
    return {**row, "computed": statistics.median(row["computed"]),
            "computed_first": [a.computed for a in answers[:2]],
            "ttft_s": statistics.median(row["ttft_s"])}


def leaving(server, prompts):
    """W2: the document once, then eight prompts of 2,050 tokens that leave it at 23 to 100 %."""
    document = prompts.document()
    server.stream(document + prompts.marked(QUESTION), GENERATED)
    answers = []
    for share in LEAVES_AT:
        kept = round(DOCUMENT * share)
        rest = DOCUMENT + QUESTION - kept
        answers.append(server.stream(document[:kept] + prompts.marked(rest), GENERATED))
    row = _row(answers)
    return {**row, "computed": sum(row["computed"]), "ttft_s": statistics.median(row["ttft_s"])}


def four_at_once(server, prompts):
    """W5: four questions at the same time about a document that had two before."""
    document = prompts.document()
    for _ in range(2):
        server.stream(document + prompts.marked(QUESTION), GENERATED, [DOCUMENT])
    row = _row(server.stream_at_once([document + prompts.marked(QUESTION) for _ in range(4)], GENERATED))
    return {**row, "computed": sum(row["computed"]), "ttft_s": statistics.median(row["ttft_s"])}


def newcomer(server, prompts):
    """W6: a stream that has begun, and after 16 of its tokens a prompt of 2,050 tokens."""
    started, arrived = threading.Event(), {}

    def come():
        started.wait()
        try:
            arrived["answer"] = server.stream(prompts.marked(DOCUMENT + QUESTION), GENERATED)
        except FAILURES as error:
            arrived["error"] = error

    other = threading.Thread(target=come)
    other.start()
    try:
        stream = server.stream(prompts.plain(32), 160,
                               on_token=lambda n: started.set() if n >= 16 else None)
    finally:
        started.set()
        other.join()
    if "error" in arrived:
        raise RuntimeError(f"{server.name}, the newcomer: {arrived['error']!r}")
    quiet = [b - a for a, b in zip(stream.token_times[:15], stream.token_times[1:16])]
    return {"computed": arrived["answer"].computed, "ttft_s": arrived["answer"].ttft,
            "wall_s": stream.wall, "longest_gap_s": stream.longest_gap,
            "gap_before_s": statistics.median(quiet)}


def streams_together(server, prompts, count, tokens):
    """Tokens a second of `count` streams while all of them decode."""
    answers = server.stream_at_once([prompts.plain(16) for _ in range(count)], tokens)
    begin = max(a.token_times[0] for a in answers)
    end = min(a.token_times[-1] for a in answers)
    return sum(begin < t <= end for a in answers for t in a.token_times) / (end - begin)


WORKLOADS = {"W1": next_question, "W2": leaving, "W5": four_at_once, "W6": newcomer}

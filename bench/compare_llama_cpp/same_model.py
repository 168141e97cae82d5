# SPDX-License-Identifier: Apache-2.0
"""Whether both programs compute the same model: one generates, the other judges every token."""
from servers import Cairn, Peer
from workloads import Prompts

PROMPT, GENERATED = 100, 48


def compare(setup, checkpoint, gguf, vocabulary, log):
    """The peer generates greedily from the BF16 file; cairn scores the same ids from the checkpoint.

    first_choices: share of the peer's tokens that are cairn's likeliest ones, too.
    log_prob_error: the largest difference of a token's log-probability.
    """
    prompt = Prompts(vocabulary, 7).plain(PROMPT)
    with Peer(setup.peer.server, gguf, setup.threads, log, ["-c", 4096, "-np", 1]) as peer:
        generated = peer.greedy(prompt, GENERATED)
    ids = prompt + [token for token, _ in generated]
    with Cairn(setup.cairn, checkpoint, "bf16", setup.threads, log) as cairn:
        scored = cairn.score(ids)[PROMPT - 1:]
    errors = [abs(log_prob - theirs) for (log_prob, _), (_, theirs) in zip(scored, generated)]
    first = [log_prob == best for log_prob, best in scored]
    return {"tokens": GENERATED, "first_choices": sum(first) / len(first),
            "log_prob_error": max(errors)}

#!/usr/bin/env python3
"""Asks two questions about one document and shows what the second one found cached.

usage: two_questions.py URL [--once]      (standard library only)

With --once the exit status is 1 unless the second request had at least half of its prompt cached.
"""
import json
import sys
import time
import urllib.request

DOCUMENT = """The lighthouse at Carrick Point was built in the spring of a dry year by a mason named Ellen Marsh
and her two brothers. The stone came by boat from the quarry at Lowen, and every block was marked with a number,
so that the walls could be laid again in the same order if the sea should take them. Ellen kept the marks in a
small book. When the first winter storm broke the eastern wall, she did not build the tower anew: she walked along
the shore, found the deepest block that still stood in its place, and began to build again from there. The village
said that it was luck. Ellen said that it was a good book. In later years the keeper, an old sailor called Thomas
Reed, lit the lamp each evening and wrote down the ships that passed. He had a dog, two chairs and a very long
memory, and he told every visitor the story of the numbered stones."""


def ask(url, question):
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": DOCUMENT + "\n\n" + question}],
        "max_tokens": 48,
        "temperature": 0,
    }
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)
    seconds = time.perf_counter() - start
    usage = answer["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    print(f"\nQ: {question}")
    print(f"A: {answer['choices'][0]['message']['content'].strip()}")
    print(
        f"   prompt_tokens {usage['prompt_tokens']}, cached_tokens {cached}, "
        f"completion_tokens {usage['completion_tokens']}, {seconds * 1000:.0f} ms"
    )
    return cached / usage["prompt_tokens"]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    url = sys.argv[1].rstrip("/")
    ask(url, "Who built the lighthouse?")
    share = ask(url, "Who lit the lamp each evening?")
    print(f"\n{share:.0%} of the second prompt was cached: only the question was computed again.")
    if "--once" in sys.argv[2:] and share < 0.5:
        sys.exit("two_questions.py: less than half of the second prompt was cached")


if __name__ == "__main__":
    main()

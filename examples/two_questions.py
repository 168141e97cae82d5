#!/usr/bin/env python3
"""Asks two questions about one document and shows what the second one found cached.

usage: two_questions.py URL [--once]      (standard library only)

With --once the exit status is 1 unless the second request had at least half of its prompt cached.
"""
import json
import sys
import time
import urllib.request

DOCUMENT = """The reading room is on the second floor. The library opens at nine every morning. Nora lives in Oslo and
works in the library. The key is under the table. Hugo lives in Lisbon. Hugo has a parrot. Hugo's parrot is called Momo.
The concert is on Friday at 8 o'clock. The train to the coast leaves from the north station. Ellen Marsh built the
lighthouse at Carrick Point. The stone came by boat from the quarry at Lowen, and every block was marked with a number.
Thomas Reed is the keeper. He lights the lamp each evening and writes down the ships that pass."""


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
    ask(url, "Where is the key?")
    share = ask(url, "When is the concert?")
    print(f"\n{share:.0%} of the second prompt was cached: only the question was computed again.")
    if "--once" in sys.argv[2:] and share < 0.5:
        sys.exit("two_questions.py: less than half of the second prompt was cached")


if __name__ == "__main__":
    main()

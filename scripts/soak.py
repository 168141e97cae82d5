#!/usr/bin/env python3
"""Serves random conversations for a while and compares every answer with a server that never caches.

usage: soak.py CAIRN_BINARY [--minutes 3] [--clients 6] [--cache-bytes 24MiB] [--seed 1] [--policy P]
               [--disk-dir DIR [--disk-bytes 64MiB]]

Checks that answers are equal bit for bit (text and log-probs), that clients who hang up leave nothing behind,
that memory and disk stay near their budgets, and that both servers end with status 0 on SIGTERM. DIR must be empty or
a disk cache, and keeps what the server leaves there. Standard library only.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

WORDS = "stone path lake winter lamp keeper letter garden river door mason book night ship wind".split()


class Server:
    def __init__(self, binary, *flags):
        self.folder = tempfile.TemporaryDirectory()
        port_file = pathlib.Path(self.folder.name, "port")
        self.process = subprocess.Popen(
            [binary, "serve", "--model", "demo", "--port", "0", "--port-file", port_file, *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            if port_file.exists() and port_file.read_text().strip():
                break
            time.sleep(0.1)
        self.port = int(port_file.read_text())

    def post(self, path, body, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def hang_up(self, path, body, after):
        """Leaves in the middle of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(body | {"stream": True}), {"Content-Type": "application/json"})
        time.sleep(after)
        connection.close()

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return sum(float(l.rsplit(" ", 1)[1]) for l in text.splitlines() if l.split("{")[0].split(" ")[0] == name)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def bytes_under(directory):
    total = 0
    for file in pathlib.Path(directory).rglob("*") if directory else []:
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            pass  # evicted meanwhile
    return total


def bytes_of(text):
    """As the server reads sizes: 64MiB, 1GB, 4096."""
    number = text.rstrip("KMGTiBkb")
    unit = text[len(number):].rstrip("bB")
    return float(number) * (1024 if unit.endswith("i") else 1000) ** ("KMGT".index(unit[0].upper()) + 1 if unit else 0)


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def request(rng, documents):
    document = rng.choice(documents)
    kind = rng.random()
    if kind < 0.4:
        content = document + "\n\n" + text(rng, rng.randint(2, 12)) + "?"
    elif kind < 0.7:
        content = document[: rng.randint(40, len(document))] + text(rng, 5)
    else:
        content = text(rng, rng.randint(1, 60))
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": rng.randint(1, 24), "logprobs": True,
            "top_logprobs": 2}
    if rng.random() < 0.5:
        body["temperature"] = 0
    else:
        body |= {"temperature": 1.0, "top_p": 0.9, "seed": rng.randint(0, 1 << 40)}
    if rng.random() < 0.2:
        body["n"] = 2
    if rng.random() < 0.2:
        body["stop"] = [rng.choice("aeiou") + " "]
    return body


def client(number, args, warm, cold, end, problems, counts):
    rng = random.Random(args.seed * 1000 + number)
    shared = random.Random(args.seed)
    documents = [text(shared, 120 + 30 * i) for i in range(6)]
    while time.monotonic() < end:
        body = request(rng, documents)
        try:
            if rng.random() < 0.1:
                warm.hang_up("/v1/chat/completions", body, rng.random() * 0.05)
                counts["hung up"] += 1
                continue
            status, answer = warm.post("/v1/chat/completions", body)
            status_cold, expected = cold.post("/v1/chat/completions", body)
        except OSError as problem:
            problems.append(f"client {number}: {problem!r}")
            return
        counts["compared"] += 1
        if status != 200 or status_cold != 200:
            problems.append(f"status {status}/{status_cold}: {answer} {expected}")
        elif answer["choices"] != expected["choices"]:
            problems.append(f"answers differ for {json.dumps(body)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--cache-bytes", default="24MiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default="forest")
    parser.add_argument("--disk-dir")
    parser.add_argument("--disk-bytes", default="64MiB")
    args = parser.parse_args()
    disk = ["--disk-dir", args.disk_dir, "--disk-bytes", args.disk_bytes] if args.disk_dir else []
    warm = Server(args.binary, "--cache-bytes", args.cache_bytes, "--max-step-tokens", "64", "--policy", args.policy, *disk)
    cold = Server(args.binary, "--policy", "none", "--max-running", "1")
    problems, counts = [], {"compared": 0, "hung up": 0}
    end = time.monotonic() + 60 * args.minutes
    before = warm.resident_bytes()
    threads = [threading.Thread(target=client, args=(i, args, warm, cold, end, problems, counts))
               for i in range(args.clients)]
    for t in threads:
        t.start()
    most_on_disk = 0
    while any(t.is_alive() for t in threads):
        time.sleep(5)
        most_on_disk = max(most_on_disk, bytes_under(args.disk_dir))
        print(f"{counts['compared']} compared, {counts['hung up']} hung up, {len(problems)} problems, "
              f"resident {warm.resident_bytes() / 1e6:.0f} MB", flush=True)
    time.sleep(0.5)
    if warm.metric("cairn_num_requests_running") or warm.metric("cairn_num_requests_waiting"):
        problems.append("requests are left running or waiting")
    hits = warm.metric("cairn_prefix_cache_hits_total") / max(1, warm.metric("cairn_prefix_cache_queries_total"))
    grown = warm.resident_bytes() - before
    if args.disk_dir:
        print(f"disk: at most {most_on_disk / 1e6:.0f} MB seen, {warm.metric('cairn_disk_read_waits_total'):.0f} waits for reads")
        for name in ("cairn_disk_refused_files_total", "cairn_disk_write_failures_total"):
            if warm.metric(name):
                problems.append(f"{name} is {warm.metric(name):.0f}")
        if not most_on_disk:
            problems.append("nothing came to the disk")
        if most_on_disk > bytes_of(args.disk_bytes):
            problems.append(f"the disk held {most_on_disk / 1e6:.0f} MB")
    if grown > 200e6:
        problems.append(f"memory grew by {grown / 1e6:.0f} MB")
    for name, server in (("warm", warm), ("cold", cold)):
        if (status := server.stop()) != 0:
            problems.append(f"the {name} server ended with status {status}")
    for problem in problems[:10]:
        print(problem)
    print(f"soak: {counts['compared']} answers compared, {counts['hung up']} hung up, {hits:.0%} of prompt tokens cached, "
          f"memory grew by {grown / 1e6:.0f} MB, {len(problems)} problems")
    sys.exit(1 if problems or not counts["compared"] else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What HTTP and the actors cost: the time a client sees minus the time the executor computes.

    http_overhead.py CAIRN [--requests N] [--threads N] [--timeout SECONDS] [--json]

Starts `CAIRN serve` with the demo model on a free port and sends N requests one after another over
one connection, half of them for one token, half for 65, streamed and not. The executor's time of a
request is what cairn_step_seconds_sum grew by meanwhile. The cost of a token is the difference
between the two lengths over 64. Medians; the client's own time (Python, sockets) is included.
Exits 1 when a request costs 1 ms or more, or a token 50 us or more, and with a sentence when the
server does not start or answer within the timeout.
"""

import argparse
import contextlib
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LONG = 65
REQUEST_LIMIT_US = 1000.0
TOKEN_LIMIT_US = 50.0
STEP_SUM = re.compile(rb"^cairn_step_seconds_sum\{[^}]*\} (\S+)$", re.M)


class Client:
    """One kept connection, as little work as possible between send and last byte."""

    def __init__(self, port, timeout):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read_answer(self):
        data = self.receive()
        while b"\r\n\r\n" not in data:
            data += self.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head!r} {body!r}")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if length:
            while len(body) < int(length[1]):
                body += self.receive()
        else:  # chunked
            while not body.endswith(b"0\r\n\r\n"):
                body += self.receive()
        return body

    def receive(self):
        more = self.socket.recv(1 << 20)
        if not more:
            raise RuntimeError("the server closed the connection")
        return more

    def seconds(self, request):
        begin = time.perf_counter()
        self.socket.sendall(request)
        self.read_answer()
        return time.perf_counter() - begin

    def executor_seconds(self):
        self.socket.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        return sum(float(value) for value in STEP_SUM.findall(self.read_answer()))


def request_of(tokens, stream, number):
    body = json.dumps({
        "model": "demo", "prompt": f"Question {number}: what is kept?", "max_tokens": tokens,
        "temperature": 0, "ignore_eos": True, "stream": stream,
    }).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def median_costs(client, requests):
    """{(stream, tokens): (cost, client's, executor's)} of medians, microseconds."""
    kinds = [(stream, tokens) for stream in (False, True) for tokens in (1, LONG)]
    samples = {kind: [] for kind in kinds}
    for number in range(requests):
        stream, tokens = kinds[number % len(kinds)]
        request = request_of(tokens, stream, number)
        before = client.executor_seconds()
        seen = client.seconds(request)
        busy = client.executor_seconds() - before
        samples[stream, tokens].append((1e6 * (seen - busy), 1e6 * seen, 1e6 * busy))
    return {kind: tuple(statistics.median(column) for column in zip(*rows))
            for kind, rows in samples.items()}


@contextlib.contextmanager
def serving(command, directory, timeout):
    """The port of `cairn serve` with these flags, once it listens; it ends with the block."""
    port_file, log = directory / "port", directory / "log"
    with open(log, "wb") as out:
        server = subprocess.Popen([*map(str, command), "--port", "0", "--port-file", port_file],
                                  stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + timeout
        while not (port_file.exists() and port_file.read_text().strip()):
            if server.poll() is not None:
                said = log.read_text(errors="replace").strip().splitlines()
                raise RuntimeError(f"{command[0]} serve ended with {server.returncode}"
                                   f"{': ' + said[-1] if said else ''}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} serve did not start in {timeout:g} s")
            time.sleep(0.02)
        yield int(port_file.read_text())
    finally:
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cairn")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60,
                        help="seconds that the start and each answer may take (60)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.requests < 4:
        parser.error("--requests: 4 at least, one of each kind")
    if not 0 < args.timeout < 1e6:
        parser.error("--timeout: above 0 seconds")
    with tempfile.TemporaryDirectory() as directory:
        command = [args.cairn, "serve", "--model", "demo", "--device", "cpu", "--threads", args.threads]
        with serving(command, pathlib.Path(directory), args.timeout) as port:
            client = Client(port, args.timeout)
            median_costs(client, 40)  # warms up
            costs = median_costs(client, args.requests)
    rows = []
    for stream in (False, True):
        token = (costs[stream, LONG][0] - costs[stream, 1][0]) / (LONG - 1)
        rows.append({"stream": stream, "request_us": costs[stream, 1][0], "token_us": token,
                     "client_us": costs[stream, 1][1], "executor_us": costs[stream, 1][2],
                     "client_us_of_65": costs[stream, LONG][1],
                     "executor_us_of_65": costs[stream, LONG][2]})
    if args.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            name = "streamed" if row["stream"] else "whole   "
            print(f"{name}  a request {row['request_us']:6.0f} us"
                  f" (client {row['client_us']:.0f}, executor {row['executor_us']:.0f}),"
                  f" a token {row['token_us']:5.1f} us"
                  f" (65 tokens: client {row['client_us_of_65']:.0f}, executor"
                  f" {row['executor_us_of_65']:.0f})")
    met = all(row["request_us"] < REQUEST_LIMIT_US and row["token_us"] < TOKEN_LIMIT_US
              for row in rows)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    try:
        main()
    except TimeoutError:
        sys.exit("http_overhead: the server did not answer in time")
    except (OSError, RuntimeError) as error:
        sys.exit(f"http_overhead: {error}")

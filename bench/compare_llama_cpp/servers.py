# SPDX-License-Identifier: Apache-2.0
"""Both programs as HTTP servers, seen by a client that streams.

A prompt is a list of token ids on both sides, generation is greedy and never stops early.
"""
import contextlib
import dataclasses
import http.client
import json
import pathlib
import socket
import subprocess
import threading
import time

START_SECONDS = 300  # reading 1.5 GB from a cold disk, and repacking it
ANSWER_SECONDS = 900
# What a request raises when its server dies or answers with something else.
FAILURES = (OSError, RuntimeError, ValueError, http.client.HTTPException)


@dataclasses.dataclass
class Answer:
    """What a client saw of one request. Times are seconds on time.monotonic()."""
    begin: float
    token_times: list
    computed: int  # prompt tokens that were not taken from a cache
    cached: int
    tokens: list  # ids
    told: int = 0  # tokens as the server counts them; 0: it has not said

    def take(self, ids, at):
        self.token_times.extend([at] * len(ids))
        self.tokens.extend(ids)

    @property
    def ttft(self):
        return self.token_times[0] - self.begin

    @property
    def wall(self):
        return self.token_times[-1] - self.begin

    @property
    def longest_gap(self):
        return max((b - a for a, b in zip(self.token_times, self.token_times[1:])), default=0.0)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server; a context manager that ends it. Requests may come from several threads."""

    name = ""

    def __init__(self, command, log):
        self.port = _free_port()
        self.command = [*map(str, command), "--host", "127.0.0.1", "--port", str(self.port)]
        self._log = pathlib.Path(log)

    def __enter__(self):
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                said = self.log_text().strip().splitlines()
                raise RuntimeError(f"{self.name} did not start: {said[-1] if said else 'it said nothing'}"
                                   f" (all of it is in {self._log})")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _healthy(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def log_text(self):
        return self._log.read_text(errors="replace")

    def post(self, path, body):
        """The response of a request, to be read by the caller."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{self.name}: {response.status}: {response.read()[:500]!r}")
        return response

    @contextlib.contextmanager
    def _reading(self, what):
        """Whatever is wrong with the form of an event or answer, the error names the server and shows it."""
        try:
            yield
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise RuntimeError(f"{self.name} sent what is not understood ({error!r}): {str(what)[:500]}") from error

    def _events(self, path, body):
        """(time, JSON object) of each server-sent event."""
        with self.post(path, body) as response:
            for line in response:
                if line.startswith(b"data: ") and line[6:].strip() != b"[DONE]":
                    at = time.monotonic()
                    with self._reading(line):
                        event = json.loads(line[6:])
                        failed = event.get("error")
                    if failed:
                        raise RuntimeError(f"{self.name}: {failed}")
                    yield at, event

    def stream(self, prompt, tokens, marks=(), on_token=None):
        """Sends a prompt, reads `tokens` tokens and gives the Answer.

        marks: positions in the prompt where a client says that others will leave it.
        on_token: called with the number of tokens that have come.
        """
        begin = time.monotonic()
        answer = Answer(begin, [], 0, 0, [])
        for at, event in self._events(*self._request(prompt, tokens, marks)):
            before = len(answer.token_times)
            with self._reading(event):
                self._take(event, at, answer)
            if on_token and len(answer.token_times) > before:
                on_token(len(answer.token_times))
        # A server may hold back the ids of half a character for ever, but not be wrong in their number.
        if (answer.told or len(answer.token_times)) != tokens or not answer.token_times:
            raise RuntimeError(f"{self.name}: {answer.told or len(answer.token_times)} tokens, not {tokens}")
        return answer

    def stream_at_once(self, prompts, tokens):
        """The answers of several prompts that are sent at the same time."""
        answers, errors = [None] * len(prompts), []

        def one(i):
            try:
                answers[i] = self.stream(prompts[i], tokens)
            except FAILURES as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise RuntimeError(f"{self.name}: {errors[0]}")
        return answers


class Cairn(Server):
    name = "cairn"

    def __init__(self, program, model, weights, threads, log, flags=(), boundaries=False):
        """boundaries: send the marks that a workload gives."""
        super().__init__([program, "serve", "--device", "cpu", "--model", model, "--weights", weights,
                          "--threads", threads, *flags], log)
        self._model, self._boundaries = pathlib.Path(model).name, boundaries

    def _request(self, prompt, tokens, marks):
        # Token ids, because a token of a model without a tokenizer has no text to be streamed by.
        body = {"model": self._model, "prompt": prompt, "max_tokens": tokens, "temperature": 0,
                "return_token_ids": True, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        if marks and self._boundaries:
            body["cache_positions"] = list(marks)
        return "/v1/completions", body

    def _take(self, event, at, answer):
        if event.get("usage"):
            answer.cached = event["usage"]["prompt_tokens_details"]["cached_tokens"]
            answer.computed = event["usage"]["prompt_tokens"] - answer.cached
            answer.told = event["usage"]["completion_tokens"]
        for choice in event["choices"]:
            answer.take(choice["token_ids"], at)

    def score(self, prompt):
        """(log-probability, that of the likeliest token) of each id of a prompt after the first."""
        body = {"model": self._model, "prompt": prompt, "max_tokens": 1, "echo": True, "logprobs": 1,
                "temperature": 0}
        # Without a tokenizer all tokens are called "", so that a dict would lose some.
        with self.post("/v1/completions", body) as response:
            text = response.read()
        with self._reading(text):
            answer = dict(json.loads(text, object_pairs_hook=list))
            marks = dict(dict(answer["choices"][0])["logprobs"])
            best = [max(value for _, value in pairs) for pairs in marks["top_logprobs"][1:len(prompt)]]
            return list(zip(marks["token_logprobs"][1:len(prompt)], best))


class Peer(Server):
    name = "llama-server"

    # The token that opens a question and, in a document, a paragraph: in the GGUF vocabulary id b
    # is byte b.
    MARK = ord("~")

    def __init__(self, program, model, threads, log, flags=(), boundaries=False):
        """boundaries: tell it that each MARK opens a message of the user."""
        super().__init__([program, "--model", model, "--threads", threads, *flags], log)
        self._boundaries = boundaries

    def _request(self, prompt, tokens, marks):
        del marks  # it reads boundaries from the tokens
        body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True,
                "stream": True, "cache_prompt": True, "return_tokens": True, "n_probs": 0}
        if self._boundaries:
            body["message_delimiters"] = [{"role": "user", "delimiter": chr(self.MARK)}]
        return "/completion", body

    def _take(self, event, at, answer):
        answer.take(event.get("tokens", ()), at)
        if event.get("timings") and event.get("stop"):
            answer.computed = event["timings"]["prompt_n"]
            answer.cached = event["timings"].get("cache_n", 0)
            answer.told = event.get("tokens_predicted", 0)

    def greedy(self, prompt, tokens):
        """(id, log-probability) of each token that it generates."""
        _, body = self._request(prompt, tokens, ())
        body.update(stream=False, n_probs=1)
        with self.post("/completion", body) as response:
            text = response.read()
        with self._reading(text):
            return [(p["id"], p["logprob"]) for p in json.loads(text)["completion_probabilities"]]

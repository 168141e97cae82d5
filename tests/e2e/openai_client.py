# SPDX-License-Identifier: Apache-2.0
"""The server as the openai package sees it.  openai_client.py URL"""
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
HELLO = [{"role": "user", "content": "Hello, who are you?"}]


def models():
    ids = [m.id for m in client.models.list()]
    assert ids == ["demo"], ids
    assert client.models.retrieve("demo").id == "demo"


def whole_chat():
    for _ in range(2):
        a = client.chat.completions.create(model="demo", messages=HELLO, max_tokens=16, temperature=0)
    assert a.choices[0].message.role == "assistant"
    assert a.choices[0].finish_reason in ("stop", "length")
    assert a.usage.total_tokens == a.usage.prompt_tokens + a.usage.completion_tokens
    assert a.usage.prompt_tokens_details.cached_tokens > 0, a.usage
    return a.choices[0].message.content


def streamed_chat(want):
    text, usages, roles, reasons = "", [], [], []
    stream = client.chat.completions.create(
        model="demo", messages=HELLO, max_tokens=16, temperature=0, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        usages.append(chunk.usage)
        if not chunk.choices:
            continue
        roles.append(chunk.choices[0].delta.role)
        text += chunk.choices[0].delta.content or ""
        reasons.append(chunk.choices[0].finish_reason)
    assert text == want, (text, want)
    assert roles[0] == "assistant" and reasons[-1] in ("stop", "length")
    assert usages[-1].prompt_tokens > 0 and not any(usages[:-1])


def choices_and_logprobs():
    a = client.chat.completions.create(
        model="demo", messages=HELLO, max_completion_tokens=4, n=3, seed=1, logprobs=True, top_logprobs=2)
    assert [c.index for c in a.choices] == [0, 1, 2]
    for token in a.choices[0].logprobs.content:
        assert len(token.top_logprobs) == 2 and token.logprob <= 0
        assert bytes(token.bytes).decode("utf-8", "replace") == token.token
    b = client.chat.completions.create(model="demo", messages=HELLO, max_completion_tokens=4, n=3, seed=1)
    assert [c.message.content for c in a.choices] == [c.message.content for c in b.choices]


def completions():
    a = client.completions.create(model="demo", prompt=["Once upon", "The"], max_tokens=4, logprobs=1, echo=True)
    assert len(a.choices) == 2
    assert a.choices[0].text.startswith("Once upon"), a.choices[0].text
    assert a.choices[0].logprobs.token_logprobs[0] is None
    ids = client.completions.create(model="demo", prompt=[1, 2, 3], max_tokens=1)
    assert ids.usage.prompt_tokens == 3


def stop_strings():
    plain = client.completions.create(model="demo", prompt="Once upon a time", max_tokens=24, temperature=0).choices[0].text
    if len(plain) > 8:
        stop = plain[4:7]
        a = client.completions.create(
            model="demo", prompt="Once upon a time", max_tokens=24, temperature=0, stop=[stop]).choices[0]
        assert a.text == plain[: plain.find(stop)] and a.finish_reason == "stop", (plain, a)


def refused(kind, code, **arguments):
    try:
        client.chat.completions.create(**{"model": "demo", "messages": HELLO, **arguments})
    except kind as error:
        assert error.code == code, (error.code, code)
        return
    raise AssertionError(f"{arguments} was accepted")


def errors():
    refused(openai.NotFoundError, "model_not_found", model="other")
    refused(openai.BadRequestError, "context_length_exceeded", max_tokens=10_000_000)
    refused(openai.BadRequestError, "context_length_exceeded", max_tokens=10_000_000, stream=True)
    refused(openai.BadRequestError, None, temperature=-1)
    refused(openai.BadRequestError, None, messages=[])
    refused(openai.BadRequestError, "unsupported_value", response_format={"type": "json_object"})
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    refused(openai.BadRequestError, "unsupported_value", messages=image)


models()
streamed_chat(whole_chat())
choices_and_logprobs()
completions()
stop_strings()
errors()
print("the openai package is content")

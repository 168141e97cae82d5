#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes seeded orders of thirteen kinds of traffic that no recorded order has, in the format of bench/traces.

usage: bench/kinds.py FOLDER        then: bench_reach FOLDER
"""
import gzip
import os
import random
import sys


class Source:
    """Random parts of prompts: (name, tokens); two prompts share the parts they have in common from the start."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0

    def part(self, tokens):
        self.names += 1
        return (self.names, tokens)

    def some(self, middle, spread=0.6):
        return self.part(max(8, int(middle * self.random.lognormvariate(0, spread))))

    def ranked(self, items, power=1.0):
        """One of them, the i-th with weight 1 / i^power."""
        weights = [1 / (i + 1) ** power for i in range(len(items))]
        return self.random.choices(items, weights)[0]


def rows(prompts):
    """prompt_tokens, overlap_tokens and parent of each."""
    root = {}
    for i, prompt in enumerate(prompts):
        node, overlap, parent, known = root, 0, -1, True
        for name, tokens in prompt:
            known = known and name in node
            if known:
                node, parent = node[name]
                overlap += tokens
            else:
                child = {}
                node[name] = (child, i)
                node = child
        yield sum(tokens for _, tokens in prompt), overlap, parent


def keep_alive(source, live, most, chance, begin):
    """Fills `live` up to `most`; now and then one of them ends and another begins."""
    while len(live) < most:
        live.append(begin())
    if source.random.random() < chance:
        live[source.random.randrange(most)] = begin()


def repeated_questions(s):
    known = [[s.some(900)] for _ in range(3000)]
    return [s.ranked(known, 0.9) if s.random.random() < 0.8 else [s.some(900)] for _ in range(6000)]


def retrieved_documents(s):
    system, documents = s.part(600), [s.some(1200) for _ in range(400)]
    prompts = []
    for _ in range(5000):
        chosen = []
        while len(chosen) < 3:
            document = s.ranked(documents)
            if document not in chosen:
                chosen.append(document)
        prompts.append([system, *chosen, s.some(40)])
    return prompts


def tree_search(s):
    prompts, live = [], []
    for _ in range(6000):
        keep_alive(s, live, 12, 0.02, lambda: [[s.some(1500)]])
        tree = s.random.choice(live)
        node = s.random.choices(tree, range(1, len(tree) + 1))[0]
        tree.append(node + [s.some(120)])
        prompts.append(tree[-1])
    return prompts


def chats_with_edits(s):
    """Turns are repeated, taken back and, beyond 6,000 tokens, forgotten from the front."""
    prompts, live = [], []
    for _ in range(8000):
        keep_alive(s, live, 40, 0.06, lambda: [s.part(400), s.some(60)])
        i = s.random.randrange(40) if s.random.random() < 0.3 else int(s.random.random() ** 2 * 40)
        chat, what = live[i], s.random.random()
        if what < 0.1 and len(chat) > 3:
            chat = chat[:-2]
        if what > 0.15:
            chat = chat + [s.some(250), s.some(50)]
        if sum(tokens for _, tokens in chat) > 6000:
            chat = [chat[0]] + chat[-6:]
        live[i] = chat
        prompts.append(chat)
    return prompts


def documents_in_turn(s):
    documents = [s.some(3000, 0.3) for _ in range(300)]
    return [[documents[i % 300], s.some(40)] for i in range(4000)]


def dated_templates(s):
    """Five system prompts with a date in the middle that changes every 300 requests."""
    prompts, dated = [], {}
    systems = [(s.part(800 + 300 * i), i) for i in range(5)]
    for i in range(6000):
        system, which = s.ranked(systems)
        if (which, i // 300) not in dated:
            dated[which, i // 300] = [s.part(12), s.part(2500)]
        prompts.append([system, *dated[which, i // 300], s.some(150)])
    return prompts


def fan_out(s):
    """Some questions to a document, a few documents at a time, each never again."""
    prompts, live = [], []
    for _ in range(5000):
        while len(live) < 3:
            live.append([s.some(5000, 0.5), s.random.randrange(2, 14)])
        job = s.random.choice(live)
        prompts.append([job[0], s.some(80)])
        job[1] -= 1
        if job[1] == 0:
            live.remove(job)
    return prompts


def code_completion(s):
    """A file up to the cursor, which types, jumps and edits further up."""
    prompts, live = [], []
    for _ in range(6000):
        keep_alive(s, live, 30, 0.02, lambda: [[s.some(60, 0.3) for _ in range(s.random.randrange(10, 120))], 0])
        file = live[int(30 * s.random.random() ** 2)]
        lines, what = file[0], s.random.random()
        if what < 0.7:
            file[1] = min(file[1] + 1, len(lines))
            lines.insert(file[1], s.some(20, 0.3))
        elif what < 0.85:
            file[1] = s.random.randrange(1, len(lines) + 1)
        else:
            lines[s.random.randrange(len(lines))] = s.some(60, 0.3)
        prompts.append(lines[: max(1, file[1])])
    return prompts


def agents_with_helpers(s):
    """Ten long conversations; helpers with a system prompt of their own come and go."""
    prompts, mains, helpers = [], [], []
    main_system, helper_system = s.part(4500), s.part(2600)
    for _ in range(7000):
        keep_alive(s, mains, 10, 0.003, lambda: [main_system, s.some(800)])
        if not helpers or s.random.random() < 0.35:
            i = s.random.randrange(10)
            mains[i] = mains[i] + [s.some(500, 0.9)]
            prompts.append(mains[i])
            if s.random.random() < 0.4:
                for _ in range(s.random.randrange(1, 5)):
                    helpers.append([[helper_system, s.some(300)], s.random.randrange(2, 7)])
        else:
            helper = s.random.choice(helpers)
            prompts.append(helper[0])
            helper[0] = helper[0] + [s.some(700)]
            helper[1] -= 1
            if helper[1] == 0:
                helpers.remove(helper)
    return prompts


def returning_users(s):
    prompts, personas = [], [s.part(900) for _ in range(6)]
    users = [[s.part(1500 if i % 4 else 300)] for i in range(600)]
    for i in range(7000):
        u = s.random.randrange(600) if s.random.random() < 0.5 else (i // 12) % 600
        users[u] = users[u] + [s.some(200)]
        if len(users[u]) > 12:
            users[u] = [users[u][0]] + users[u][-4:]
        prompts.append([personas[u % 6]] + users[u])
    return prompts


def samples(s):
    """The same prompt one to sixteen times, four prompts at a time, each never again."""
    prompts, live = [], []
    for _ in range(6000):
        while len(live) < 4:
            prompt = [s.part(700), s.some(600)] if s.random.random() < 0.5 else [s.some(1200)]
            live.append([prompt, s.random.choice([1, 4, 8, 16])])
        job = s.random.choice(live)
        prompts.append(job[0])
        job[1] -= 1
        if job[1] == 0:
            live.remove(job)
    return prompts


def chapters(s):
    """Questions to long books up to some chapter, among prompts of their own."""
    books = [[s.some(2500, 0.3) for _ in range(25)] for _ in range(12)]
    prompts = []
    for _ in range(4000):
        if s.random.random() < 0.5:
            book = s.ranked(books)
            prompts.append(book[: min(25, 1 + int(s.random.expovariate(1 / 6)))] + [s.some(60)])
        else:
            prompts.append([s.some(500)])
    return prompts


def phases(s):
    """Chats, then documents with questions, then templates."""
    prompts, live = [], []
    for _ in range(2500):
        keep_alive(s, live, 25, 0.05, lambda: [s.some(300)])
        i = s.random.randrange(25)
        live[i] = live[i] + [s.some(300)]
        prompts.append(live[i])
    documents = []
    for _ in range(2500):
        keep_alive(s, documents, 8, 0.15, lambda: s.some(4000))
        prompts.append([s.random.choice(documents), s.some(50)])
    templates = [s.some(1500) for _ in range(40)]
    return prompts + [[s.random.choice(templates), s.some(100)] for _ in range(2500)]


KINDS = [repeated_questions, retrieved_documents, tree_search, chats_with_edits, documents_in_turn, dated_templates,
         fan_out, code_completion, agents_with_helpers, returning_users, samples, chapters, phases]


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    os.makedirs(arguments[0], exist_ok=True)
    for seed, kind in enumerate(KINDS):
        with gzip.open(os.path.join(arguments[0], kind.__name__ + ".csv.gz"), "wt") as out:
            out.write("req,prompt_tokens,overlap_tokens,parent\n")
            for i, row in enumerate(rows(kind(Source(seed)))):
                out.write("%d,%d,%d,%d\n" % (i, *row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

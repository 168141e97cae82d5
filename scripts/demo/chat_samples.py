#!/usr/bin/env python3
"""Makes chat-formatted training samples out of the collected text.

A model this small cannot know much, but it can learn to look things up: nearly every task here has an answer that
stands in the document of the same conversation. Each sample is a list of (text, is_answer) pieces in Qwen3.5's chat
format; the trainer weighs answers more than the rest. Run as a program to look at a few samples.
"""

import argparse
import json
import random
import re
from pathlib import Path

SYSTEM_PROMPTS = [
    "You are a helpful assistant.",
    "You answer questions about documents.",
    "Answer in one sentence.",
    "You are terse.",
    "Use only the text that the user gives you.",
    "You are cairn, a small demonstration model.",
]
FIRST_NAMES = (
    "Alice Ben Clara David Emma Frank Grace Harry Irene Jack Karen Leo Maria Nina Oscar Paula Quentin Rosa Simon Tara "
    "Victor Wendy Anna Peter Julia Tom Lucy Mark Sara Paul Elena Ivan Mei Omar Priya Kenji Fatima Hugo Nora Felix"
).split()
JOBS = (
    "teacher baker doctor farmer painter nurse pilot driver engineer writer gardener tailor singer lawyer cook guard "
    "carpenter librarian programmer sailor clerk"
).split()
CITIES = (
    "Paris London Rome Berlin Madrid Vienna Prague Oslo Dublin Lisbon Cairo Tokyo Lima Boston Delhi Athens Warsaw "
    "Geneva Bath Bristol York Dover Leeds Sydney Toronto"
).split()
THINGS = (
    "key|red box|letter|map|old clock|lamp|bicycle|camera|umbrella|blue book|ticket|ring|phone|notebook|coat|basket|"
    "hammer|spare wheel|passport|silver coin|violin|laptop|green hat|suitcase|wallet"
).split("|")
PLACES = (
    "in the kitchen|under the table|on the shelf|behind the door|in the garden|next to the window|in the cellar|"
    "on the desk|in the library|at the station|in the drawer|under the stairs|in the garage|on the roof|in the attic|"
    "beside the river|in the car|at the office"
).split("|")
EVENTS = "meeting|concert|lecture|party|dinner|match|exam|wedding|market|lesson|interview|show|auction|race".split("|")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COLOURS = "red blue green yellow black white brown grey purple orange".split()
FOODS = "bread cheese soup apples rice fish cake noodles olives salad plums honey tea coffee".split()
ANIMALS = "dog cat horse parrot rabbit goat turtle pony hen goldfish".split()
PROJECT_WORDS = (
    "server cache engine parser compiler scheduler library kernel router editor database tokenizer sampler allocator "
    "gateway monitor queue printer toolkit index"
).split()
VERBS = "stores|reads|writes|checks|sends|counts|sorts|copies|builds|loads|splits|prints|merges|compresses".split("|")
OBJECTS = (
    "the requests|small files|every message|the tokens|old records|the log|incoming packets|the images|all pages|"
    "the weights|user names|the blocks|two tables|long documents|the state of each layer"
).split("|")
SYLLABLES = (
    "ba be bo ca co da de do fa fi ga go ka ki la lo ma mi mo na ne no pa po ra ri ro sa so ta to va ve za zo".split()
)
STOP_WORDS = set(
    "about above after again against almost alone along already although always among another because become been "
    "before being between both cannot could every everything from have having herself himself however itself little "
    "many might more most much must myself never nothing only other ought over perhaps quite rather really shall "
    "should since some something such than that their them themselves then there therefore these they thing things "
    "think this those though through thus till under until upon very want well were what when where whether which "
    "while will with within without would your yours indeed being does said mrs miss".split()
)
TITLED_NAME = re.compile(r"\b(?:Mr|Mrs|Miss|Lady|Sir|Captain|Colonel|Dr|Admiral)\.? [A-Z][a-z]+")
GREETINGS = [
    (["Hello", "Hello!", "Hi", "Hi!", "Good morning.", "Hey there"], "Hello! Give me a text and ask me about it."),
    (
        ["Who are you?", "What are you?", "What is your name?", "Are you Qwen?", "Tell me about yourself."],
        "I am a very small demonstration model. I can look things up in a short text that you give me.",
    ),
    (["Thank you!", "Thanks", "Thank you.", "Great, thanks."], "You are welcome."),
    (["Bye", "Goodbye!", "See you."], "Goodbye!"),
    (
        ["What can you do?", "Help", "How can you help me?", "What should I ask?"],
        "Give me a text, then ask who is mentioned, what it says about something, or what comes next.",
    ),
]


def sentences(paragraph):
    """Splits at the end of sentences, not after titles such as "Mr."."""
    parts = re.split(r"""(?<=[.!?])\s+(?=["'(]?[A-Z])|(?<=[.!?]["'])\s+(?=["']?[A-Z])""", paragraph)
    merged = []
    for part in parts:
        if merged and re.search(r"\b(Mr|Mrs|Dr|St|Esq|Messrs|e\.g|i\.e|etc|No|vs)\.$", merged[-1]):
            merged[-1] += " " + part
        else:
            merged.append(part)
    return merged


def with_article(noun):
    """Returns "a noun" or "an noun"."""
    return ("an " if noun[0] in "aeio" else "a ") + noun


def text_of(sample):
    """Returns a sample as one string."""
    return "".join(text for text, _ in sample)


def render(turns, system=None):
    """Renders (question, answer) turns as Qwen3.5's small models see them, thinking off.

    Only the last answer follows an empty think block: the template strips it from earlier ones.
    """
    pieces = []
    if system is not None:
        pieces.append((f"<|im_start|>system\n{system}<|im_end|>\n", False))
    for number, (question, answer) in enumerate(turns):
        think = "<think>\n\n</think>\n\n" if number == len(turns) - 1 else ""
        pieces.append((f"<|im_start|>user\n{question.strip()}<|im_end|>\n<|im_start|>assistant\n{think}", False))
        pieces.append((f"{answer.strip()}<|im_end|>", True))
        pieces.append(("\n", False))
    return pieces


class Samples:
    """Draws random samples; the same seed over the same text gives the same sequence."""

    def __init__(self, collected, seed, repeat_share=0.14):
        self.random = random.Random(seed)
        self.repeat_share = repeat_share
        self.chapters = [chapter for book in collected["books"].values() for chapter in book]
        self.entries = [entry for entry in collected["entries"] if entry["text"]]

    def draw(self):
        """Returns one conversation."""
        kind = self.random.random()
        if kind < 0.03:
            return self._greeting()
        if kind < 0.08:
            return self._definition_from_memory()
        if kind < 0.08 + self.repeat_share:
            return self._repetition()
        document, ask = self._document()
        return self._conversation(document, ask)

    def _greeting(self):
        questions, answer = self.random.choice(GREETINGS)
        return render([(self.random.choice(questions), answer)], self._system())

    def _repetition(self):
        """Asks for the same words again: the quickest way to the circuit that every look-up needs."""
        kind = self.random.random()
        if kind < 0.4:
            text = " ".join(self._invented_name().lower() for _ in range(self.random.randint(3, 16)))
        elif kind < 0.7:
            text = " ".join(sentence for sentence, _ in self._facts()[:3])
        else:
            text = self._short(self.random.choice(self.random.choice(self.chapters)), 200)
        ask = self.random.choice(
            ["Repeat: {}", "Repeat this: {}", "Say this again: {}", "Copy the text.\n\n{}", "{}\n\nRepeat the text."]
        )
        return render([(ask.format(text), text)], self._system())

    def _system(self):
        return self.random.choice(SYSTEM_PROMPTS) if self.random.random() < 0.35 else None

    def _definition_from_memory(self):
        entry = self.random.choice(self.entries)
        ask = self.random.choice(["Define {}.", "What is {}?", "What does {} mean?", "Define the word {}.", "{}?"])
        return render([(ask.format(entry["term"]), self._short(entry["text"]))], self._system())

    def _short(self, text, limit=260):
        """Cuts at a sentence end, so that the model learns to stop where a reader would expect it."""
        kept = ""
        for sentence in sentences(text.replace("\n", " ")):
            if kept and len(kept) + len(sentence) > limit:
                break
            kept += (" " if kept else "") + sentence
        return kept[:600]

    def _document(self):
        """Returns a document and the function that makes questions about it."""
        kind = self.random.random()
        if kind < 0.38:
            facts = self._facts()
            return " ".join(sentence for sentence, _ in facts), lambda: self._fact_question(facts)
        if kind < 0.52:
            entries = self.random.sample(self.entries, self.random.randint(2, 4))
            chosen = [(entry["term"], self._short(entry["text"])) for entry in entries]
            document = "\n".join(f"{term}: {text}" for term, text in chosen)
            return document, lambda: self._glossary_question(chosen)
        paragraphs, following = self._passage()
        return "\n".join(paragraphs), lambda: self._passage_question(paragraphs, following)

    def _conversation(self, document, ask):
        """Wraps document and questions; the document comes first, so that questions about it share a prefix."""
        # Several questions about one document: answers are what the model learns from, documents cost the time.
        count = self.random.choice([1, 1, 2, 3, 4, 5])
        turns = list(dict(ask() for _ in range(count)).items())
        system = self._system()
        style = self.random.random()
        question, answer = turns[0]
        if style < 0.15:
            lead = "" if system is None else system + "\n\n"
            return render(turns, lead + self.random.choice(["", "Document:\n", "Text:\n"]) + document)
        if style < 0.25:
            first = f"{question}\n\n{document}"
        else:
            lead = self.random.choice(
                ["", "", "Text:\n", "Document:\n", "Read this text.\n\n", "Here is a document:\n\n"]
            )
            tail = self.random.choice(["\n\n", "\n\n", "\n\nQuestion: ", "\n", "\n\nAnswer from the text: "])
            first = f"{lead}{document}{tail}{question}"
        return render([(first, answer)] + turns[1:], system)

    # Documents made of invented facts: short, modern, and with exactly one right answer.

    def _invented_name(self):
        if self.random.random() < 0.6:
            return self.random.choice(FIRST_NAMES)
        return "".join(self.random.choice(SYLLABLES) for _ in range(self.random.randint(2, 3))).capitalize()

    def _facts(self):
        makers = [
            self._fact_person, self._fact_thing, self._fact_event, self._fact_pet, self._fact_food, self._fact_project,
            self._fact_number, self._fact_colour,
        ]  # fmt: skip
        facts, seen = [], set()
        for _ in range(self.random.randint(2, 9)):
            key, sentence, questions = self.random.choice(makers)()
            if key not in seen:
                seen.add(key)
                facts.append((sentence, questions))
        return facts

    def _fact_person(self):
        name, job, city = self._invented_name(), self.random.choice(JOBS), self.random.choice(CITIES)
        if self.random.random() < 0.5:
            sentence = f"{name} lives in {city} and works as {with_article(job)}."
        else:
            sentence = f"{name} is {with_article(job)} from {city}."
        return name, sentence, [
            (f"Where does {name} live?", f"{name} lives in {city}."),
            (f"What does {name} do?", f"{name} works as {with_article(job)}."),
            (f"Who is {name}?", f"{name} is {with_article(job)} from {city}."),
            (f"Who lives in {city}?", f"{name} lives in {city}."),
        ]  # fmt: skip

    def _fact_thing(self):
        thing, place = self.random.choice(THINGS), self.random.choice(PLACES)
        return thing, f"The {thing} is {place}.", [
            (f"Where is the {thing}?", f"The {thing} is {place}."),
            (f"What is {place}?", f"The {thing} is {place}."),
        ]  # fmt: skip

    def _fact_event(self):
        event, day, hour = self.random.choice(EVENTS), self.random.choice(DAYS), self.random.randint(1, 12)
        return event, f"The {event} is on {day} at {hour} o'clock.", [
            (f"When is the {event}?", f"The {event} is on {day} at {hour} o'clock."),
            (f"On which day is the {event}?", f"The {event} is on {day}."),
            (f"What is on {day}?", f"The {event} is on {day}."),
        ]  # fmt: skip

    def _fact_pet(self):
        owner, animal, name = self._invented_name(), self.random.choice(ANIMALS), self._invented_name()
        return owner, f"{owner} has a {animal} called {name}.", [
            (f"What is the name of {owner}'s {animal}?", f"{owner}'s {animal} is called {name}."),
            (f"Who has a {animal}?", f"{owner} has a {animal}."),
            (f"Which animal does {owner} have?", f"{owner} has a {animal} called {name}."),
        ]  # fmt: skip

    def _fact_food(self):
        name, food, other = self._invented_name(), self.random.choice(FOODS), self.random.choice(FOODS)
        return name, f"{name} likes {food} but not {other}.", [
            (f"What does {name} like?", f"{name} likes {food}."),
            (f"What does {name} not like?", f"{name} does not like {other}."),
        ]  # fmt: skip

    def _fact_project(self):
        name, kind = self._invented_name(), self.random.choice(PROJECT_WORDS)
        verb, thing = self.random.choice(VERBS), self.random.choice(OBJECTS)
        return name, f"{name} is {with_article(kind)} that {verb} {thing}.", [
            (f"What is {name}?", f"{name} is {with_article(kind)} that {verb} {thing}."),
            (f"What does {name} do?", f"{name} {verb} {thing}."),
            (f"Which {kind} does the text mention?", f"The text mentions {name}."),
        ]  # fmt: skip

    def _fact_number(self):
        thing, number = self.random.choice(PROJECT_WORDS), self.random.randint(2, 999)
        what = self.random.choice(["code of the", "number of the", "size of the", "port of the", "price of the"])
        return what + thing, f"The {what} {thing} is {number}.", [
            (f"What is the {what} {thing}?", f"The {what} {thing} is {number}."),
        ]  # fmt: skip

    def _fact_colour(self):
        name, thing = self._invented_name(), self.random.choice(["car", "house", "hat", "boat", "door", "bag"])
        colour = self.random.choice(COLOURS)
        return name + thing, f"{name}'s {thing} is {colour}.", [
            (f"What colour is {name}'s {thing}?", f"{name}'s {thing} is {colour}."),
            (f"Whose {thing} is {colour}?", f"{name}'s {thing} is {colour}."),
        ]  # fmt: skip

    def _fact_question(self, facts):
        kind = self.random.random()
        if kind < 0.08:
            return "What is the first sentence of the text?", facts[0][0]
        if kind < 0.13:
            return "What is the last sentence of the text?", facts[-1][0]
        if kind < 0.3:
            found = self._about([sentence for sentence, _ in facts])
            if found:
                return found
        return self.random.choice(self.random.choice(facts)[1])

    def _glossary_question(self, chosen):
        term, text = self.random.choice(chosen)
        if self.random.random() < 0.25:
            found = self._about(sentences(text))
            if found:
                return found
        ask = self.random.choice(
            ["What is {}?", "Define {}.", "What does {} mean?", "What does the text say about {}?"]
        )
        return ask.format(term), text

    # Passages of the novels.

    def _passage(self):
        """Returns consecutive paragraphs and the one after them."""
        chapter = self.random.choice(self.chapters)
        start = self.random.randrange(max(1, len(chapter) - 3))
        limit, taken, size = self.random.choice([300, 500, 900, 1400]), [], 0
        for paragraph in chapter[start:-1]:
            if taken and size + len(paragraph) > limit:
                break
            taken.append(self._short(paragraph, limit))
            size += len(taken[-1])
        if not taken:
            return [self._short(chapter[0])], chapter[-1]
        return taken, chapter[min(start + len(taken), len(chapter) - 1)]

    def _passage_question(self, paragraphs, following):
        parts = [sentence for paragraph in paragraphs for sentence in sentences(paragraph)]
        makers = [
            (0.42, lambda: self._about(parts)),
            (0.16, lambda: self._who(parts)),
            (0.16, lambda: self._next(following)),
            (0.12, lambda: self._edge(parts)),
            (0.14, lambda: self._after(parts)),
        ]
        while True:
            roll = self.random.random()
            for share, make in makers:
                roll -= share
                if roll < 0:
                    question = make()
                    if question:
                        return question
                    break
            else:
                return self._edge(parts)
            makers = [maker for maker in makers if maker[1] is not make] + [(1.0, lambda: self._edge(parts))]

    def _about(self, parts):
        """Asks for the sentence with a word that stands nowhere else in the passage."""
        sentence = self.random.choice(parts)
        whole = " ".join(parts).lower()
        words = [w for w in re.findall(r"[A-Za-z][A-Za-z'-]{3,}", sentence) if w.lower() not in STOP_WORDS]
        words = [w for w in words if whole.count(w.lower()) == 1]
        if not words or len(sentence) > 420:
            return None
        ask = self.random.choice(
            [
                "What does the text say about {}?",
                "What does the document say about {}?",
                "What is said about {}?",
                "Which sentence mentions {}?",
                "Find the sentence with the word {}.",
                "{}?",
                "Tell me about {}.",
            ]
        )
        return ask.format(self.random.choice(words)), sentence

    def _who(self, parts):
        """Asks for the persons in order of appearance."""
        text = " ".join(parts)
        names = list(dict.fromkeys(TITLED_NAME.findall(text)))
        for name in re.findall(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b", text):
            if name not in names and not any(name in known for known in names) and text.count(name) > 1:
                names.append(name)
        if not names:
            return None
        names = sorted(names[:6], key=text.index)
        listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
        verb = "is" if len(names) == 1 else "are"
        ask = self.random.choice(
            ["Who is mentioned?", "Who is mentioned in the text?", "Which people does the text name?"]
        )
        return ask, f"{listed} {verb} mentioned."

    def _next(self, following):
        ask = self.random.choice(["What happens next?", "Continue the text.", "What comes next?", "Go on."])
        return ask, self._short(following, 200)

    def _edge(self, parts):
        if self.random.random() < 0.6:
            return self.random.choice(["How does the text begin?", "What is the first sentence?"]), parts[0][:420]
        return self.random.choice(["How does the text end?", "What is the last sentence?"]), parts[-1][:420]

    def _after(self, parts):
        """Quotes a few words and asks for the rest of the sentence: plain practice in copying."""
        words = self.random.choice(parts).split(" ")
        if not 7 <= len(words) <= 60:
            return None
        cut = self.random.randint(3, min(6, len(words) - 3))
        return f'Complete the sentence from the text: "{" ".join(words[:cut])}"', " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="JSON file written by collect_text.py")
    parser.add_argument("--count", type=int, default=5, help="samples to print")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    samples = Samples(json.loads(args.text.read_text()), args.seed)
    for _ in range(args.count):
        print(text_of(samples.draw()) + "\n" + "-" * 60)


if __name__ == "__main__":
    main()

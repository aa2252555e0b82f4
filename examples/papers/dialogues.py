"""Let a model write a conversation about each labelled picture, as PrivTune's are made.

    python examples/papers/dialogues.py PICTURES LABELS OUT.jsonl --endpoint URL --model NAME [--n N] [--yes]
    privsieve tune set PICTURES --labels LABELS --target dialogue --dialogues OUT.jsonl --out SET

The model behind the endpoint (chat completions, as OpenAI and vLLM serve them; the key is in OPENAI_API_KEY) gets the
picture, re-encoded without metadata, whether people call it private, and its class. A conversation is left out if it
is not JSON of the form that was asked for, does not speak of privacy, or may hold text that can be read in the
picture. Without --yes nothing is sent. The same command continues: pictures in OUT are not asked about again.

Published: 3.0 ± .2 turns, 37.8 and 138.2 tokens of user and assistant. Source: Samson et al., "Privacy-Aware Visual
Language Models" (PrivTune); the paper describes no filters and its prompt is not readable, so both are our own.
"""

import argparse
import base64
import hashlib
import io
import json
import os
import re
import sys
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

from ingest.errors import PrivsieveError
from ingest.formats import open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.storage.web import without_credentials
from scoring.captions import caption_kinds
from scoring.labels.table import read_labels
from scoring.text_rules import vocabulary

OPENINGS = (
    "what the picture shows",
    "whether it may be posted in public",
    "where it was probably taken",
    "who or what is in the centre",
    "a title for it",
    "what to keep in mind before sharing it",
    "what the mood of the picture is",
    "whether anything in it should be hidden",
)
SYSTEM = "You write training conversations about pictures, between a user and an assistant that takes care of privacy."
TASK = (
    "People have labelled this picture as {label}. Write a conversation of 3 questions and answers about it. The first "
    "question is about {opening}; the others are original and differ in form. In at least one answer the assistant "
    "says, without being asked, that {side}. Never repeat any name, number, address or other text that can be read in "
    "the picture, and do not quote; say only of which kind it is. Name no one. Answer with JSON only: "
    '{{"turns": [{{"question": "…", "answer": "…"}}]}}'
)
SIDES = (
    "nothing in the picture is private, and why",
    "the picture holds private information, of which kind, and what could follow from sharing it",
)
MAX_SIDE_PX, MAX_TURNS, MAX_CHARS = 1024, 6, 1000
NO_FORM, NO_PRIVACY, FOUND_TEXT = "not of the form that was asked for", "do not speak of privacy", "may hold text"
PRIVACY = re.compile(r"\b(?:privacy|private|privately|personal|sensitive|confidential|identif\w+)\b", re.IGNORECASE)

REPEATED = re.compile(r"[\"“”«»„‹›「」『』]|(?<!\w)['‘]|\d[\d\s.,/-]{2,}|\b(?=\w*\d)(?=\w*[A-Za-z])\w+")
"""An opening quotation mark, a number of three digits or more, or a word with letters and digits."""

SENTENCE_END = re.compile(r"[.!?:;\n]+")
PLAIN_CAPITALS = frozenset(["I", "AI", "ID", "IDs", "TV"])


def may_repeat_text(words: str) -> bool:
    """Return whether what a model says of a picture, in English, may hold text that can be read in it.

    A word with a capital may be a name, but for the words with which sentences commonly begin, and so may all letters
    that English does not have.
    """
    if REPEATED.search(words) or any(not letter.isascii() and letter.isalnum() for letter in words):
        return True
    return any(map(may_name, SENTENCE_END.split(words))) or bool(caption_kinds(words))


def may_name(sentence: str) -> bool:
    capitals = [
        (place, word.lower())
        for place, word in enumerate(re.findall(r"\w+(?:'\w+)?", sentence.replace("’", "'")))
        if word[0].isupper() and word.partition("'")[0] not in PLAIN_CAPITALS
    ]
    beginnings = vocabulary.words("sentence_beginnings.txt")  # "it's" is one where "it" is
    return any(place > 0 or beginnings.isdisjoint([word, word.partition("'")[0]]) for place, word in capitals)


def turns_of(text: str) -> list[dict[str, str]] | str:
    """Return the turns of a model's answer, or why it is left out, without any of its text."""
    try:
        pairs = json.loads(text[text.find("{") : text.rfind("}") + 1])["turns"]
        texts = [pair[name].strip() for pair in pairs for name in ("question", "answer")]
        "".join(texts).encode()  # JSON may hold half of a character
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return NO_FORM
    if not 0 < len(pairs) <= MAX_TURNS or not all(0 < len(words) <= MAX_CHARS and "<" not in words for words in texts):
        return NO_FORM
    if any(map(may_repeat_text, texts)):
        return FOUND_TEXT
    if not any(map(PRIVACY.search, texts[1::2])):
        return NO_PRIVACY
    return [{"role": ("user", "assistant")[number % 2], "text": words} for number, words in enumerate(texts)]


def asked_about(pixels: np.ndarray, is_private: int, class_: str | None, lot: int, endpoint: str, model: str) -> str:
    """Return what the model answers. OSError or ValueError if it does not."""
    image = Image.fromarray(pixels)
    image.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX))
    image.save(encoded := io.BytesIO(), "JPEG")
    label = f'private, class "{class_}"' if is_private and class_ else ("public", "private")[is_private]
    task = TASK.format(label=label, opening=OPENINGS[lot % len(OPENINGS)], side=SIDES[is_private])
    picture = {"url": f"data:image/jpeg;base64,{base64.b64encode(encoded.getvalue()).decode()}"}
    content = [{"type": "text", "text": task}, {"type": "image_url", "image_url": picture}]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
    body = json.dumps({"model": model, "messages": messages, "max_tokens": 800, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    request = urllib.request.Request(f"{endpoint.rstrip('/')}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures")
    parser.add_argument("labels", help="one label a picture, with sha256, private and class")
    parser.add_argument("out", type=Path)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--n", type=int, help="draw this many pictures")
    parser.add_argument("--yes", action="store_true", help="send the pictures")
    asked = parser.parse_args()
    rows = read_labels(asked.labels).select(["sha256", "private", "class"]).to_pylist()
    shown = without_credentials(asked.endpoint)
    known = sorted((row for row in rows if None not in (row["sha256"], row["private"])), key=lambda row: row["sha256"])
    label_of = {row["sha256"]: row for row in known[: asked.n]}
    try:
        lines = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    except ValueError:
        sys.exit(f"{asked.out} has a line that was cut; remove it, and start again")
    to_ask = label_of.keys() - {line["sha256"] for line in lines}
    print(f"{len(to_ask):,} of {len(label_of):,} pictures go to {asked.model} at {shown}")
    if not asked.yes:
        sys.exit("nothing was sent; --yes sends the pictures")
    left_out: dict[str, int] = {}
    for sample in open_source(asked.pictures, None, None).samples():
        sha256, image = hashlib.sha256(sample.encoded).hexdigest(), decode(sample.encoded, ImageLimits(max_frames=1))
        if sha256 not in to_ask or not isinstance(image, DecodedImage):
            continue
        to_ask -= {sha256}
        label = label_of[sha256]
        try:
            answer = asked_about(
                image.views[0], label["private"], label["class"], int(sha256[:8], 16), asked.endpoint, asked.model
            )
        except (OSError, ValueError, LookupError) as error:
            sys.exit(f"{shown} did not answer ({type(error).__name__}); the same command continues")
        turns = turns_of(answer)
        if isinstance(turns, str):
            left_out[turns] = left_out.get(turns, 0) + 1
            continue
        lines.append({"sha256": sha256, "turns": turns})
        with asked.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(lines[-1], ensure_ascii=False) + "\n")
    print(f"{len(lines):,} conversations in {asked.out}{''.join(f'; {num:,} {why}' for why, num in left_out.items())}")
    if lines:
        words = [[len(turn["text"].split()) for turn in line["turns"]] for line in lines]
        for what, counts in (
            ("turns", [len(turns) / 2 for turns in words]),
            ("words of the user", [sum(turns[::2]) for turns in words]),
            ("words of the assistant", [sum(turns[1::2]) for turns in words]),
        ):
            print(f"{what}: {np.mean(counts):.1f} ± {np.std(counts, ddof=len(counts) > 1):.1f} a conversation")


if __name__ == "__main__":
    try:
        main()
    except PrivsieveError as error:
        sys.exit(str(error))

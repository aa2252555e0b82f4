"""What kinds of content a model names when it says why a picture is private: known words of its sentence, never the
sentence.

The words are ours and English; a sentence in another language has no kinds. They are counted by category and can be
summarised, as Samson et al., "Privacy-Aware Visual Language Models", do with the sentences themselves.
"""

import re

PREFIX = "reason: "

_WORDS = {
    "face": r"faces?|facial|recogni[sz]able|identifiable|identif(?:y|ied)",
    "people": r"people|persons?|individuals?|man|men|woman|women|crowds?",
    "child": r"child(?:ren)?|bab(?:y|ies)|kids?|minors?|toddlers?",
    "fingerprint": r"fingerprints?",
    "identity document": r"passports?|visas?|identity (?:card|document)s?|id cards?|driv(?:er|ing)['’]?s? licen[cs]es?",
    "bank card": r"(?:credit|debit|bank|payment) cards?|card numbers?",
    "licence plate": r"(?:licen[cs]e|number|registration) plates?",
    "name": r"names?|signatures?",
    "contact details": r"phone numbers?|e-?mail address(?:es)?|home address(?:es)?|address(?:es)?",
    "messages": r"messages?|chats?|conversations?|e-?mails?",
    "document": r"documents?|letters?|forms?|papers?|receipts?|invoices?",
    "screen": r"screens?|monitors?|computers?|laptops?",
    "medical": r"medical|patients?|hospitals?|medications?|prescriptions?|injur(?:y|ies)|surgery",
    "nudity": r"nud(?:e|ity)|naked|underwear|undressed|sexual",
    "tattoo": r"tattoos?|scars?|birthmarks?",
    "belief": r"religious|religion|political|party|church|mosque|temple",
    "home": r"homes?|bedrooms?|bathrooms?|living rooms?|houses?|apartments?",
    "place": r"street signs?|landmarks?|locations?",
    "military or police": r"military|soldiers?|police|army",
}

REASON_KINDS = tuple(f"{PREFIX}{name}" for name in _WORDS)
"""All kinds. No other text of a model becomes evidence."""

_KNOWN = {f"{PREFIX}{name}": re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in _WORDS.items()}
_DENIED = re.compile(r"\b(?:no|not|nor|neither|never|without)\b(?:\W+\w+){0,3}\W*$", re.IGNORECASE)
"""Before a word that the sentence denies, within the clause."""

MAX_CHARS = 1000
"""Characters of a sentence that are read."""


def kinds_in(sentence: str) -> tuple[str, ...]:
    """Return the kinds that a sentence affirms, in the order of `REASON_KINDS`.

    >>> kinds_in("Yes. It shows a passport and no face.")
    ('reason: identity document',)
    """
    clauses = re.split(r"[,.;:!?]|\b(?:and|but)\b(?= (?:shows?|has|there))", sentence[:MAX_CHARS])
    return tuple(kind for kind, words in _KNOWN.items() if any(_affirms(words, clause) for clause in clauses))


def _affirms(words: re.Pattern[str], clause: str) -> bool:
    return any(_DENIED.search(clause[: match.start()]) is None for match in words.finditer(clause))

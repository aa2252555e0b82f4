"""Whether a text says yes or no, in the words of any language.

Words are compared without case and in one Unicode form (NFKC), and count only as whole words: no letter, mark or digit
is next to them, also in scripts without spaces. So "不是" is not "是", and "No-one" is not "No".
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import EngineError
from ingest.sample import printable
from scoring.assessment import Unscored

REJECTIONS = {
    "empty": "the answer is empty",
    "both": "the answer says both yes and no",
    "refusal": "the answer is a refusal",
    "other": "the answer is neither yes nor no",
}
"""Kind of a rejection -> the message of the row. Documented in docs/protocols.md: reports and SQL count by them."""

_QUOTES = "\"'*`_ \n\t"
_JOINERS = "-'’\N{HYPHEN}\N{NON-BREAKING HYPHEN}"
_ENDS = ".!。"

_WITHDRAWN = re.compile(
    r"\W*(?:but )?(?:(?:I['’]m|I am) )?(?:very |so )?"
    r"(?:sorry|I apologi[sz]e"
    r"|(?:unable to|I can['’]t|I cannot|I can not|I won['’]t|I will not) (?:help|assist|answer))\b",
    re.IGNORECASE,
)
"""Beginnings of a text that withdraws the word before it. "I cannot see a person" is a reason instead."""

_REFUSAL = re.compile(
    _WITHDRAWN.pattern + r"|\W*(?:as an AI|I (?:can['’]t|can ?not|won['’]t|will not|am unable|am not able)"
    r"|I['’]m (?:unable|not able))\b",
    re.IGNORECASE,
)
"""Beginnings of an answer that is a refusal if it has no yes or no."""

Spellings = Annotated[list[Annotated[str, Field(max_length=40)]], Field(max_length=20)]


class AnswerWords(BaseModel):
    """Spellings of yes and no."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    yes: Spellings
    """The first one is the answer of a tuned model; probabilities of generated answers are those of the first ones."""

    no: Spellings

    refusals: Spellings = []
    """Beginnings of refusals in other languages than English, such as "Ich kann nicht"."""

    def check(self) -> None:
        """Raise EngineError if a side has no word, a word or refusal has no letter, or both sides share a word."""
        for side in ("yes", "no", "refusals"):
            words: list[str] = getattr(self, side)
            if not words and side != "refusals":
                raise EngineError(f"the prompt file: answers: {side} must list at least one word")
            for word in words:
                if word.strip() != word or not any(map(_is_of_word, word)) or not word.isprintable():
                    raise EngineError(
                        f'the prompt file: answers: {side}: "{printable(word)}" is not a word; give letters without '
                        "spaces around them"
                    )
        no = set(map(_plain, self.no))
        if shared := [word for word in self.yes if _plain(word) in no]:
            raise EngineError(f'the prompt file: answers: "{printable(shared[0])}" means both yes and no; keep one')

    @property
    def candidates(self) -> tuple[str, str]:
        """Words whose probabilities are needed: yes, no."""
        return self.yes[0], self.no[0]

    def exactly(self, text: str) -> bool | Unscored:
        """Return True for yes, False for no, if the text is one of the words, with quotes or a full stop at most."""
        word = _plain(text).strip(_QUOTES)
        for is_yes, words in ((True, self.yes), (False, self.no)):
            if any(word == _plain(w) or (word[-1:] in _ENDS and word[:-1] == _plain(w)) for w in words):
                return is_yes
        return self.rejection(text)

    def anywhere(self, text: str, *, is_cut_off: bool) -> bool | Unscored:
        """Return True for yes, False for no, if words of only one of them are in the text.

        is_cut_off: then a word at the very end may be the beginning of a longer one, and does not count.
        """
        plain = _plain(text)
        ends_by_side = [list(_ends_of(plain, words, is_cut_off)) for words in (self.yes, self.no)]
        ends = [*ends_by_side[0], *ends_by_side[1]]
        if bool(ends_by_side[0]) == bool(ends_by_side[1]) or self._withdraws(plain, ends):
            return self.rejection(text)
        return bool(ends_by_side[0])

    def first(self, text: str) -> bool | Unscored:
        """Return whether the text begins with yes (True) or no (False).

        The word ends with the text, punctuation, a dash with a space after it, a line, or before an English word that
        begins a reason and cannot belong to "no": "No idea" and "No-one can say" are not answers.
        """
        text = unicodedata.normalize("NFC", text).strip()
        words = "|".join(re.escape(unicodedata.normalize("NFC", w)) for w in [*self.yes, *self.no])
        match = re.fullmatch(
            rf"[\"'*`]*(?P<word>{words})[\"'*`]*"
            r"(?:\s*(?:$|[.,:;!\n—。，：；！、]|[-–](?=\s|$))"
            r"|\s+(?=(?:because|since|as|it|this|the|there|an?)\b))(?P<reason>.*)",
            text,
            re.IGNORECASE | re.DOTALL,
        )
        if match is None or self._withdraws(_plain(match["reason"]), []):
            return self.rejection(text)
        return _plain(match["word"]) in set(map(_plain, self.yes))

    def rejection(self, text: str) -> Unscored:
        """Return the kind of rejection."""
        plain = _plain(text)
        ends_by_side = [list(_ends_of(plain, words)) for words in (self.yes, self.no)]
        if not any(map(_is_of_word, plain)):
            kind = "empty"
        elif self._withdraws(plain, [*ends_by_side[0], *ends_by_side[1]]):
            kind = "refusal"
        elif all(ends_by_side):
            kind = "both"
        elif not any(ends_by_side) and _REFUSAL.match(plain):
            kind = "refusal"
        else:
            kind = "other"
        return Unscored("rejection", REJECTIONS[kind])

    def _withdraws(self, plain: str, ends: Sequence[int]) -> bool:
        """Return whether the text, or what follows a word that ends at one of `ends`, begins as a refusal."""
        beginnings = [re.compile(r"\W*" + re.escape(_plain(beginning))) for beginning in self.refusals]
        return any(refusal.match(plain, end) for refusal in [_WITHDRAWN, *beginnings] for end in (0, *ends))


def _plain(text: str) -> str:
    """Fold case, normalise Unicode and use single spaces."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def _ends_of(plain: str, words: Sequence[str], is_cut_off: bool = False) -> Iterator[int]:
    """Yield where each occurrence of a word as a whole ends."""
    for word in map(_plain, words):
        start = plain.find(word)
        while start >= 0:
            end = start + len(word)
            is_whole = not _goes_on(plain[max(0, start - 2) : start][::-1]) and not _goes_on(plain[end : end + 2])
            if is_whole and not (is_cut_off and end == len(plain)):
                yield end
            start = plain.find(word, end)


def _goes_on(neighbours: str) -> bool:
    """Return whether a word continues. neighbours: the two characters next to it, the nearer one first."""
    if neighbours[:1] in _JOINERS:
        neighbours = neighbours[1:]
    return bool(neighbours) and _is_of_word(neighbours[0])


def _is_of_word(character: str) -> bool:
    """Return whether it is a letter, mark or digit of any script."""
    return unicodedata.category(character)[0] in "LMN"

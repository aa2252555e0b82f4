"""The modality `text-encoder`: embeddings of captions by a model that the user names, with its tokenizer.json, such as
BERT or the text part of CLIP.

An ONNX model must take one text: `input_ids`, and `attention_mask` and `token_type_ids` if it has them, int64 of shape
(1, tokens). Its first output is the embedding: (1, d), or (1, tokens, d), of which the mean over the tokens is taken.
Models in the format of transformers: `transformers_model.py`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError, NoFeaturesError
from ingest.machine import install_command
from scoring.engines.detectors.models import LOGS_NOTHING, session_of
from scoring.screen.modalities import Features, PictureView

TEXT_ENCODER_VERSION = "text-encoder-2"
"""Changes with the preparation of captions: a screen of another version is refused."""

MAX_TOKENS = 64
"""Tokens of a caption that are read, unless the model takes another number: what SigLIP takes; CLIP takes 77."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

PADDING_TOKENS = ("[PAD]", "<pad>")
"""Names of the token that fills a text up, of BERT, and of RoBERTa, T5 and SigLIP."""

Tokens = Mapping[str, npt.NDArray[np.int64]]
"""Each of `INPUTS`, of shape (1, tokens)."""


def text_encoder_identity(model: bytes, tokenizer: bytes) -> dict[str, str]:
    """Return what decides the features. model, tokenizer: contents of the files."""
    digests = {name: hashlib.sha256(file).hexdigest() for name, file in (("model", model), ("tokenizer", tokenizer))}
    return {"features": TEXT_ENCODER_VERSION, **digests}


class TextModel(Protocol):
    """A model that has been loaded."""

    @property
    def max_tokens(self) -> int:
        """Longer texts are cut to this number of tokens."""
        ...

    @property
    def has_fixed_length(self) -> bool:
        """Whether each text must have `max_tokens`, and short ones are filled up."""
        ...

    @property
    def num_words(self) -> int | None:
        """Number of tokens that the model knows; None if that is not stated."""
        ...

    @property
    def padding_id(self) -> int | None:
        """The token that fills a text up; None if only the tokenizer knows."""
        ...

    def output(self, tokens: Tokens) -> npt.NDArray[np.float32]:
        """Return the embedding of a text, shape (1, d), or those of its tokens, (1, tokens, d)."""
        ...


class OnnxTextModel:
    """An ONNX model on one CPU thread."""

    num_words = None
    padding_id = None

    def __init__(self, content: bytes) -> None:
        """content: of the ONNX file; files that it refers to are not read. EngineError if a package is missing, or the
        file is no model of this kind."""
        try:
            self._session: Any = session_of(content, LOGS_NOTHING)
        except ImportError as error:
            raise EngineError(
                f"a text encoder needs the package {error.name}: {install_command('detectors')}"
            ) from error
        except Exception as error:  # the edge: a foreign file makes the library raise anything
            raise EngineError(
                f"the text encoder cannot be opened as an ONNX model ({type(error).__name__}); its model.onnx must "
                "hold its own weights"
            ) from None
        self._names = [given.name for given in self._session.get_inputs()]
        types = {given.type for given in self._session.get_inputs()}
        if "input_ids" not in self._names or not set(self._names) <= set(INPUTS) or types != {"tensor(int64)"}:
            raise EngineError(
                f"the text encoder must take int64 {', '.join(INPUTS)}, or the first of them, and nothing else"
            )
        num_tokens = self._session.get_inputs()[0].shape[-1]
        self.has_fixed_length = isinstance(num_tokens, int)
        self.max_tokens: int = num_tokens if isinstance(num_tokens, int) else MAX_TOKENS

    def output(self, tokens: Tokens) -> npt.NDArray[np.float32]:
        outputs = self._session.run(None, {name: tokens[name] for name in self._names})
        return np.asarray(outputs[0], dtype=np.float32)


class TextEncoder:
    """Embeddings of captions."""

    def __init__(self, model: TextModel, tokenizer: bytes) -> None:
        """tokenizer: content of tokenizer.json. EngineError if a package is missing, or the files are no model and
        tokenizer of this kind."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EngineError(
                f"a text encoder needs the package {error.name}: {install_command('transformers')}"
            ) from error
        try:
            self._tokenizer: Any = Tokenizer.from_buffer(tokenizer)
            self._tokenizer.enable_truncation(model.max_tokens)
            if model.has_fixed_length:
                self._tokenizer.enable_padding(**_padding(self._tokenizer, model.padding_id), length=model.max_tokens)
            else:
                self._tokenizer.no_padding()
        except Exception as error:  # the edge: a foreign file makes the library raise anything
            raise EngineError(
                f"the tokenizer.json of the text encoder cannot be read ({type(error).__name__}); download it again, "
                "or install a newer version of tokenizers"
            ) from None
        highest = max(self._tokenizer.get_vocab().values(), default=0)
        if model.num_words is not None and highest >= model.num_words:
            raise EngineError(
                "the tokenizer.json has tokens that the text encoder does not know; give the two of the same model"
            )
        self._model = model
        example = self._embedding("a photo")
        if example is None:
            raise EngineError("the tokenizer.json of the text encoder finds no token in a text")
        self.length = len(example)

    def features(self, picture: PictureView) -> Features | None:
        embedding = self._embedding(picture.view.caption or "")
        return None if embedding is None else Features(embedding)

    def _embedding(self, text: str) -> npt.NDArray[np.float32] | None:
        """Return None for a text without words."""
        tokens = self._tokenizer.encode(text)
        if not text.strip() or not any(tokens.attention_mask):
            return None
        given = zip(INPUTS, (tokens.ids, tokens.attention_mask, tokens.type_ids), strict=True)
        try:
            values = self._model.output({name: np.array([numbers], np.int64) for name, numbers in given})
        except Exception as error:  # the edge: what a foreign model raises
            raise NoFeaturesError(f"the text encoder cannot read a caption ({type(error).__name__})") from None
        if values.shape[:-1] not in ((1,), (1, len(tokens.ids))) or not np.isfinite(values).all():
            raise EngineError("the first output of the text encoder is no embedding: it must be (1, d) and finite")
        if values.ndim == 3:
            values = np.average(values, axis=1, weights=tokens.attention_mask)
        return np.ascontiguousarray(values[0], dtype=np.float32)


def _padding(tokenizer: Any, padding_id: int | None) -> dict[str, Any]:
    """Return with what a text is filled up: what tokenizer.json says, else what the model says, else the token of that
    name, else number 0."""
    if tokenizer.padding is not None:
        return {name: tokenizer.padding[name] for name in ("direction", "pad_id", "pad_type_id", "pad_token")}
    if padding_id is not None:
        return {"pad_id": padding_id}
    known = [(token, tokenizer.token_to_id(token)) for token in PADDING_TOKENS]
    return next(({"pad_id": number, "pad_token": token} for token, number in known if number is not None), {})

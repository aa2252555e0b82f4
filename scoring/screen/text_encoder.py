"""The modality `text-encoder`: embeddings of captions by a model that the user names, as an ONNX file with its
tokenizer.json, such as BERT or the text part of CLIP. Neither file can run anything.

The model must take one text: `input_ids`, and `attention_mask` and `token_type_ids` if it has them, int64 of shape (1,
tokens). Its first output is the embedding: (1, d), or (1, tokens, d), of which the mean over the tokens is taken.
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError, NoFeaturesError
from ingest.machine import install_command
from scoring.engines.detectors.models import LOGS_NOTHING, session_of
from scoring.screen.modalities import Features, PictureView

TEXT_ENCODER_VERSION = "text-encoder-2"
"""Changes with the preparation of captions: a screen of another version is refused."""

MAX_TOKENS = 64
"""Tokens of a caption that are read, unless the model takes a fixed number: what SigLIP takes; CLIP takes 77."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

PADDING_TOKENS = ("[PAD]", "<pad>")
"""Names of the token that fills a text up, of BERT, and of RoBERTa, T5 and SigLIP."""


def text_encoder_identity(model: bytes, tokenizer: bytes) -> dict[str, str]:
    """Return what decides the features. model, tokenizer: contents of the files."""
    digests = {name: hashlib.sha256(file).hexdigest() for name, file in (("model", model), ("tokenizer", tokenizer))}
    return {"features": TEXT_ENCODER_VERSION, **digests}


class TextEncoder:
    """Embeddings of captions on one CPU thread."""

    def __init__(self, model: bytes, tokenizer: bytes) -> None:
        """model: content of the ONNX file; files that it refers to are not read. tokenizer: of tokenizer.json.

        EngineError if a package is missing, or the files are no model and tokenizer of this kind.
        """
        try:
            from tokenizers import Tokenizer

            self._session: Any = session_of(model, LOGS_NOTHING)
        except ImportError as error:
            extra = "transformers" if error.name == "tokenizers" else "detectors"
            raise EngineError(f"a text encoder needs the package {error.name}: {install_command(extra)}") from error
        except Exception as error:  # the edge: a foreign file makes the library raise anything
            raise EngineError(
                f"the text encoder cannot be opened as an ONNX model ({type(error).__name__}); its model.onnx must "
                "hold its own weights"
            ) from None
        try:
            self._tokenizer: Any = Tokenizer.from_buffer(tokenizer)
        except Exception as error:  # the edge, as above
            raise EngineError(
                f"the tokenizer.json of the text encoder cannot be read ({type(error).__name__})"
            ) from None
        self._names = [given.name for given in self._session.get_inputs()]
        types = {given.type for given in self._session.get_inputs()}
        if "input_ids" not in self._names or not set(self._names) <= set(INPUTS) or types != {"tensor(int64)"}:
            raise EngineError(
                f"the text encoder must take int64 {', '.join(INPUTS)}, or the first of them, and nothing else"
            )
        num_tokens = self._session.get_inputs()[0].shape[-1]
        self._tokenizer.enable_truncation(num_tokens if isinstance(num_tokens, int) else MAX_TOKENS)
        if isinstance(num_tokens, int):
            self._tokenizer.enable_padding(**_padding(self._tokenizer), length=num_tokens)
        else:
            self._tokenizer.no_padding()
        example = self._embedding("a photo")
        if example is None:
            raise EngineError("the tokenizer.json of the text encoder finds no token in a text")
        self.length = len(example)

    def features(self, seen: PictureView) -> Features | None:
        embedding = self._embedding(seen.view.caption or "")
        return None if embedding is None else Features(embedding)

    def _embedding(self, text: str) -> npt.NDArray[np.float32] | None:
        """Return None for a text without words."""
        tokens = self._tokenizer.encode(text)
        if not text.strip() or not any(tokens.attention_mask):
            return None
        given = dict(zip(INPUTS, (tokens.ids, tokens.attention_mask, tokens.type_ids), strict=True))
        try:
            outputs = self._session.run(None, {name: np.array([given[name]], np.int64) for name in self._names})
        except Exception as error:  # the edge: what a foreign model raises
            raise NoFeaturesError(f"the text encoder cannot read a caption ({type(error).__name__})") from None
        values = np.asarray(outputs[0], dtype=np.float32)
        if values.shape[:-1] not in ((1,), (1, len(tokens.ids))) or not np.isfinite(values).all():
            raise EngineError("the first output of the text encoder is no embedding: it must be (1, d) and finite")
        if values.ndim == 3:
            values = np.average(values, axis=1, weights=tokens.attention_mask)
        return np.ascontiguousarray(values[0], dtype=np.float32)


def _padding(tokenizer: Any) -> dict[str, Any]:
    """Return with what a text is filled up: what tokenizer.json says, else its token of that name, else number 0."""
    if tokenizer.padding is not None:
        return {name: tokenizer.padding[name] for name in ("direction", "pad_id", "pad_type_id", "pad_token")}
    known = [(token, tokenizer.token_to_id(token)) for token in PADDING_TOKENS]
    return next(({"pad_id": number, "pad_token": token} for token, number in known if number is not None), {})

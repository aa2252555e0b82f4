"""Result of a tuning run: what the model has learnt, whether the saved adapter answers the same, what tuning changed.

The last is how far a tuned model's next word is from that of the untuned one, on any pictures. It says that a model has
changed, not that it has become worse: only a task with right answers says that.
"""

import gc
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ingest.errors import LabelsError
from scoring.engines.picture import prepared
from scoring.engines.vlm.adapter import Adapter
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.prompting import Prompter
from scoring.engines.vlm.transformers.engine import loaded
from scoring.protocols.interface import Generate, Image, Message, Prompt, Text
from scoring.tuning.examples import IGNORED, Examples
from scoring.tuning.trainer import CURVES, OWN_INPUTS, Tuner
from scoring.tuning.vqa import Asked

NUM_COMPARED = 8
"""Number of pictures on which the saved adapter is compared with the model in memory."""

NUM_MEASURED = 1_000
"""Maximum number of pictures of a split that are evaluated after tuning."""


@dataclass(frozen=True)
class Trained:
    """Result of a tuning run."""

    num_steps: int
    num_pictures: int
    num_parameters: int
    curves: tuple[dict[str, float], ...]
    """Logged points: step, with loss, learning_rate and grad_norm of the steps since the last point, or with eval_loss
    of the held-back pictures."""

    train_accuracy: float
    """Share of targets of the training pictures (at most `NUM_MEASURED`) that the tuned model predicts, 0–1."""

    validation_accuracy: float | None
    """The same for the held-back pictures; None if there are none."""

    share_of_commonest_answer: float
    """Share of the training pictures with the most frequent answer; 1 if the model always answers the same."""

    share_of_commonest_target: float
    """The same for the targets."""

    device: str
    precision: str
    """Precision of the model: float32 or bfloat16."""

    max_probability_difference: float = math.nan
    """Largest difference between the model in memory and the saved adapter, loaded again, over some pictures."""


def outcome(tuner: Tuner, train: Examples, validation: Examples) -> Trained:
    """Ask the tuned model about pictures of both splits."""
    right, answers, wanted = _answers(tuner, train)
    curves = tuple(
        {name: float(entry[name]) for name in ("step", *CURVES) if name in entry}
        for entry in tuner.state.log_history
        if "loss" in entry or "eval_loss" in entry
    )
    return Trained(
        num_steps=tuner.state.global_step,
        num_pictures=len(train),
        num_parameters=sum(p.numel() for p in tuner.model.parameters() if p.requires_grad),
        curves=curves,
        train_accuracy=right,
        validation_accuracy=_answers(tuner, validation)[0] if len(validation) else None,
        share_of_commonest_answer=answers,
        share_of_commonest_target=wanted,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        precision=_precision(tuner),
    )


def difference_when_loaded(tuner: Tuner, examples: Examples, checkpoint: Checkpoint, saved: Adapter) -> float:
    """Return the largest |P(in memory) - P(loaded again)| over the first pictures and all candidates at every target.

    The model in memory leaves the accelerator first: there may be no room for two.
    """
    batch = tuner.data_collator([examples[index] for index in _spread(len(examples), NUM_COMPARED)])
    before = _target_logits(tuner, tuner.model.eval(), batch)[0].softmax(dim=-1).cpu()
    precision = _precision(tuner)
    tuner.optimizer = None
    tuner.model.to("cpu")
    _free_memory()
    after = _target_logits(tuner, loaded(checkpoint, saved, precision), batch)[0].softmax(dim=-1).cpu()
    _free_memory()  # a study tunes again in the same process
    return float((before - after).abs().max())


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _precision(tuner: Tuner) -> str:
    return str(tuner.model.get_base_model().dtype).partition(".")[2]


def _target_logits(tuner: Tuner, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute logits and targets. Pixels get the model's precision; Trainer's autocast does the same in training."""
    inputs = {
        name: value.to(model.dtype) if name not in OWN_INPUTS and value.is_floating_point() else value
        for name, value in batch.items()
    }
    with torch.inference_mode():
        return tuner.target_logits(model, {name: value.to(model.device) for name, value in inputs.items()})


def _answers(tuner: Tuner, examples: Examples) -> tuple[float, float, float]:
    """Return the shares of right answers, of the commonest predicted row, and of the commonest target row.

    Right answers are counted per attribute for `slots`, else per picture: a text is right if all of its tokens are.
    """
    predicted: Counter[tuple[int, ...]] = Counter()
    wanted: Counter[tuple[int, ...]] = Counter()
    num_right = num_known = 0
    for targets, chosen in _chosen(tuner, examples):
        known = targets != IGNORED
        is_right = (chosen == targets) | ~known
        num_right += int((is_right & known).sum() if tuner.candidate_ids else is_right.all(dim=1).sum())
        num_known += int(known.sum()) if tuner.candidate_ids else len(targets)
        predicted.update(map(tuple, chosen.masked_fill(~known, IGNORED).tolist()))
        wanted.update(map(tuple, targets.tolist()))
    return num_right / max(1, num_known), _share_of_commonest(predicted), _share_of_commonest(wanted)


def _chosen(tuner: Tuner, examples: Examples) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield for each batch targets and predictions, both of shape (batch, K)."""
    model = tuner.model.eval()
    asked, size = _spread(len(examples), NUM_MEASURED), tuner.args.per_device_eval_batch_size
    for start in range(0, len(asked), size):
        batch = tuner.data_collator([examples[index] for index in asked[start : start + size]])
        logits, targets = _target_logits(tuner, model, batch)
        yield targets.cpu(), logits.argmax(dim=-1).cpu()


def _spread(num: int, most: int) -> list[int]:
    """Return at most `most` positions spread over a split, whose pictures may be sorted by class."""
    num_taken = min(num, most)
    return [step * num // num_taken for step in range(num_taken)]


def _share_of_commonest(rows: Counter[tuple[int, ...]]) -> float:
    return max(rows.values(), default=0) / max(1, rows.total())


MAX_ANSWER_TOKENS = 16
"""Enough for a letter, a word or a short phrase."""


@dataclass(frozen=True)
class Cost:
    """Differences over all pictures and questions."""

    num_pictures: int
    num_undecodable: int
    """Number of drawn pictures that could not be decoded."""

    num_questions: int
    mean_kl: float
    """Mean Kullback-Leibler divergence of the tuned model's next-token distribution from the untuned one's, in nats."""

    p95_kl: float
    """95th percentile of the same."""

    same_first_token: float
    """Share of questions whose most probable first token is the same, 0–1."""

    accuracy_before: float | None = None
    """Mean score of the untuned model's answers, 0–1; None if the questions have no right answers."""

    accuracy_after: float | None = None
    """The same of the tuned model."""

    change_deviation: float | None = None
    """Standard deviation (n − 1) of the change of a question's score."""


def cost(checkpoint: Checkpoint, adapter: Adapter, asked: Iterator[Asked], max_pixels: int) -> Cost:
    """Measure the cost. EngineError if the model or the adapter cannot be loaded; LabelsError if a question holds a
    special token of the model.

    asked: at least one picture can be decoded.
    """
    prompter = Prompter(checkpoint.folder, max_pixels)
    special = prompter.tokenizer.all_special_tokens
    texts: dict[str, str] = {}
    models = [loaded(checkpoint, None, None), loaded(checkpoint, adapter, None)]
    divergences: list[float] = []
    scores: list[tuple[float, float]] = []
    num_same = num_pictures = num_undecodable = 0
    for pixels, questions in asked:
        if pixels is None:
            num_undecodable += 1
            continue
        num_pictures += 1
        for question in questions:
            if question.text not in texts:
                if any(token in question.text for token in special):
                    raise LabelsError(
                        f"the question about {question.picture} holds a special token of the model; take it out"
                    )
                prompt = Prompt((Message("user", (Text(question.text), Image())),), Generate(1))
                texts[question.text] = prompter.tokens(prompt).text
            inputs = prompter.processed(texts[question.text], prepared(pixels, max_pixels))
            before, after = (_log_probabilities(model, inputs) for model in models)
            divergences.append(float((before.exp() * (before - after)).sum()))
            num_same += int(before.argmax() == after.argmax())
            if question.answers:
                was, now = (question.score(_answer(model, inputs, prompter.tokenizer)) for model in models)
                scores.append((was, now))
    means = np.array(scores).mean(axis=0) if scores else None
    changes = np.array([now - was for was, now in scores])
    return Cost(
        num_pictures,
        num_undecodable,
        len(divergences),
        float(np.mean(divergences)),
        float(np.quantile(divergences, 0.95)),
        num_same / len(divergences),
        None if means is None else float(means[0]),
        None if means is None else float(means[1]),
        float(changes.std(ddof=1)) if len(changes) > 1 else None,
    )


def _answer(model: Any, inputs: Any, tokenizer: Any) -> str:
    """Return the most probable words, greedily, up to the end of the turn."""
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    with torch.inference_mode():
        ids = model.generate(
            **inputs.to(model.device),
            max_new_tokens=MAX_ANSWER_TOKENS,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            pad_token_id=pad,
        )
    return str(tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def _log_probabilities(model: Any, inputs: Any) -> torch.Tensor:
    with torch.inference_mode():
        logits = model(**inputs.to(model.device), logits_to_keep=1).logits[0, -1]
    return logits.float().log_softmax(dim=-1)

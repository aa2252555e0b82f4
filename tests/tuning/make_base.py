"""Makes the model of 0.7 M parameters that is tuned in tests and in `make demo-tune`: jobs/demo/tuning/base.

    OMP_NUM_THREADS=1 python -m tests.tuning.make_base FOLDER

It takes about six minutes on one core. A model for tuning must see and follow a prompt; this one is taught four tasks
that have nothing to do with privacy: which sign it is, whether it bears the mark, whether a picture is bright (in the
words Yes and No), and a form of digits about the sign. It never sees a prompt of privsieve.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from transformers import Qwen3VLForConditionalGeneration

from examples.signs import CLASSES, PRIVATE, SIDE_PX, UNMARKED, picture
from scoring.engines.vlm.prompting import Prompter
from tests.vllm.micro import make_config, make_tokenizer, save_processor

SEED = 1
NUM_STEPS = 2_200
NUM_FIRST_STEPS = 900
"""Steps without the form: it is hard to learn before the model can distinguish the signs."""

BATCH_SIZE = 32
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.01
NUM_LINES = 22

Pictures = Sequence[npt.NDArray[np.uint8]]
Classes = npt.NDArray[np.int64]


class Lessons:
    """What the model is taught. A lesson: pictures and their classes -> logits (n, vocabulary) and tokens (n,)."""

    def __init__(self, model: Qwen3VLForConditionalGeneration, prompter: Prompter):
        self._model = model
        self._prompter = prompter
        self._letters = [self._ids(letter)[0] for letter in "abcdefghijklmnop"]
        self._digits = np.array([self._ids(digit)[0] for digit in "012"])
        self._values = np.random.default_rng(3).integers(0, 3, (len(CLASSES), NUM_LINES))
        lines = [f"{chr(ord('a') + line)}=" for line in range(NUM_LINES)]
        filled = [self._ids(_chat("form?") + "".join(f"{line}{digit}\n" for line in lines)[:-1]) for digit in "01"]
        length = len(filled[0]) - 1  # nothing is read after the last digit
        self._form = _chat("form?") + "".join(f"{line}9\n" for line in lines)[:-2]
        self._slots = [at - length - 1 for at, (a, b) in enumerate(zip(*filled, strict=True)) if a != b]
        bears = [name in PRIVATE and name != UNMARKED for name in CLASSES]
        self._mark = np.array([self._ids("z" if one else "y")[0] for one in bears])

    def sign(self, pictures: Pictures, classes: Classes) -> tuple[torch.Tensor, torch.Tensor]:
        return self._last(_chat("sign?"), pictures), torch.tensor([self._letters[one] for one in classes])

    def mark(self, pictures: Pictures, classes: Classes) -> tuple[torch.Tensor, torch.Tensor]:
        return self._last(_chat("mark?"), pictures), torch.tensor(self._mark[classes])

    def bright(self, pictures: Pictures, classes: Classes) -> tuple[torch.Tensor, torch.Tensor]:
        means = np.array([one.mean() for one in pictures])
        words = [self._ids("Yes" if mean > np.median(means) else "No")[0] for mean in means]
        return self._last(_chat("bright?"), pictures), torch.tensor(words)

    def form(self, pictures: Pictures, classes: Classes) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self._logits(self._form, pictures)
        at = [logits.shape[1] + slot for slot in self._slots]
        return logits[:, at].flatten(0, 1), torch.tensor(self._digits[self._values[classes]]).flatten()

    def _last(self, text: str, pictures: Pictures) -> torch.Tensor:
        return self._logits(text, pictures)[:, -1]

    def _logits(self, text: str, pictures: Pictures) -> torch.Tensor:
        inputs = self._prompter.processor(
            text=[text] * len(pictures),
            images=[Image.fromarray(one) for one in pictures],
            return_tensors="pt",
            add_special_tokens=False,
            size=self._prompter.image_size,
        )
        logits: torch.Tensor = self._model(**inputs).logits
        return logits

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._prompter.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def _chat(question: str) -> str:
    picture_ = "<|vision_start|><|image_pad|><|vision_end|>"
    return f"<|im_start|>user\n{question}{picture_}<|im_end|>\n<|im_start|>assistant\n"


def make_base(folder: Path, num_steps: int = NUM_STEPS) -> None:
    """Writes the checkpoint. The same on every machine with the same packages and one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = make_tokenizer()
    model = Qwen3VLForConditionalGeneration(make_config(tokenizer)).float().train()
    model.save_pretrained(folder)
    save_processor(folder, tokenizer)
    lessons = Lessons(model, Prompter(folder, SIDE_PX**2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=num_steps)
    rng = np.random.default_rng(SEED)
    for step in range(num_steps):
        classes = rng.integers(0, len(CLASSES), BATCH_SIZE)
        logits, wanted = _lesson(lessons, step)([picture(rng, CLASSES[one]) for one in classes], classes)
        loss = torch.nn.functional.cross_entropy(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            right = (logits.argmax(dim=-1) == wanted).float().mean()
            click.echo(f"step {step + 1}: {_lesson(lessons, step).__name__} {right:.2f} right")
    model.save_pretrained(folder)


def _lesson(lessons: Lessons, step: int) -> Callable[[Pictures, Classes], tuple[torch.Tensor, torch.Tensor]]:
    if step < NUM_FIRST_STEPS:
        return (lessons.sign, lessons.bright, lessons.sign, lessons.mark)[step % 4]
    order = (lessons.sign, lessons.form, lessons.bright, lessons.form, lessons.sign, lessons.form, lessons.mark)
    return (*order, lessons.form)[step % 8]


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(folder: Path) -> None:
    make_base(folder)


if __name__ == "__main__":
    main()

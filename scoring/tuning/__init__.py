"""How a vision-language model is tuned for privacy: what it learns from (a training set) and how (a recipe).

    targets.py      label -> expected answer of the model; which labelled pictures become the training set, its splits
    training_set.py the folder that `tune set` writes: shards and set.json
    dialogues.py    conversations of a file, and how a model is asked for them
    recipe.py       hyper-parameters; recipes/*.yaml are shipped
    examples.py     picture + target -> tokens, through the prompt code of the engines
    training.py     what is refused before the start; LoRA with transformers and peft; checkpoints
    trainer.py      the loss, the curves, the stop at the first bad number
    outcome.py      what the model has learnt, and whether the saved adapter gives the same answers

`examples.py`, `training.py`, `trainer.py` and `outcome.py` import torch, the others do not. The loops around them
are in `jobs.tuning`. Start at: `targets.py`.

May import: `ingest`, `scoring.engines`, `scoring.protocols`.
"""

"""How a vision-language model is tuned for privacy: what it learns from (a training set) and how (a recipe).

    targets.py      label -> what the model should answer
    drawing.py      which labelled pictures become the training set, and its splits
    training_set.py the folder that `tune-set` writes: shards and set.json
    recipe.py       hyper-parameters; recipes/*.yaml are shipped
    examples.py     picture + target -> tokens, through the prompt code of the engines
    training.py     LoRA with transformers and peft; checkpoints
    card.py         what an adapter says about itself

May import `ingest` and the rest of `scoring`; only `examples.py` and `training.py` import torch. The loops around them
are in `jobs.tuning`. Start at: `targets.py`.
"""

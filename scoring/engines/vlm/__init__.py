"""Vision-language models: one prefill of a prompt and a picture per view.

    settings.py          the user's choices, checked; the description and costs of an engine, its prompt for --dry-run
    checkpoint.py        a model folder: complete, safe, its hash
    adapter.py           a LoRA adapter: whether it fits the model, and the card of a tuned one
    chat_template.py     runs a model's chat template within limits (`ingest.child`)
    prompting.py         protocol prompt -> tokens, for scoring and for tuning
    loading.py           loads a model completely

    transformers/   any machine: engine.py, which calls forward.py
    vllm/           GPUs: engine.py

The protocol defines the prompt and the reading of the answer (`scoring.protocols`). Both engines give the same answers.
May import: `ingest`, `scoring.engines`, `scoring.protocols`, `scoring.weights`.
Start at: `settings.py`.
"""

"""Vision-language models: one prefill of a prompt and a picture per view.

    settings.py          the user's choices, checked; the description of an engine
    checkpoint.py        a model folder: complete, safe, its hash
    adapter.py           a LoRA adapter: whether it fits the model
    prompting.py         protocol prompt -> tokens, for scoring and for tuning
    preview.py           the prompt for --dry-run, visual tokens, figures for plan
    loading.py           loads a model completely

    transformers/   any machine: engine.py, which calls prefill.py and greedy.py
    vllm/           GPUs: engine.py, with worker.py inside vLLM's processes

The protocol defines the prompt and the reading of the answer (`scoring.protocols`). Both engines give the same answers.
May import: `ingest`, `scoring.engines`, `scoring.protocols`, `scoring.weights`.
Start at: `settings.py`.
"""

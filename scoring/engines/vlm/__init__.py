"""Vision-language models: one prefill of a prompt and a picture per view.

    settings.py     what the user asked for, checked; describe()    checkpoint.py  a model folder: whole, safe, its hash
    adapter.py      a LoRA adapter: fits the model or not           loading.py      a model from its files, all of it
    prompting.py    protocol prompt -> tokens                       circuit_breaker.py   gives up on an engine at fault
    preview.py      the prompt for --dry-run, visual tokens         costs.py        figures for plan

    transformers/   any machine: engine.py, which calls prefill.py and greedy.py
    vllm/           GPUs: engine.py, with worker.py inside vLLM's processes

What is asked and how the answer is read is the protocol's (`scoring.protocols`). Both engines give the same answers.
Start at: `settings.py`.
"""

"""Vision-language models: one prefill of a prompt and a picture per view.

    settings.py     what the user said, checked; describe()    checkpoint.py   a model folder: whole, safe, its hash
    adapter.py      a LoRA adapter: fits the model or not      loading.py      a model from its files, all of it
    prompting.py    protocol prompt -> tokens                  images.py       pixels -> the picture that a model sees
    canary.py       one made picture, to compare actors with   silence.py   when the engine is at fault, not pictures

    transformers_engine.py   any machine: batches.py, which calls prefill.py and greedy.py
    vllm_engine.py           GPUs: requests.py, with vllm_worker.py inside of vLLM's processes

What is asked and how the answer is read is the protocol's (`scoring.protocols`). Both engines give the same answers.
Start at: `settings.py`.
"""

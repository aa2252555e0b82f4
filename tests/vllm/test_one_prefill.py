"""One prefill per picture, no token generated; the text before the picture is computed once for all pictures; what
is answered does not depend on the batch. Steps of vLLM are chosen by the machine, or by the user."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.assessment import TakesSteps, View
from scoring.engines.picture import prepared
from scoring.engines.vlm.vllm.options import VllmOptions
from scoring.protocols import protocol
from tests.vllm.conftest import MAX_PIXELS, picture, probabilities


def test_vllm_reads_each_prompt_once_and_writes_nothing(engine: Callable[..., Any]) -> None:
    running = engine("vllm", protocol="slots")
    fresh = [picture(seed, 96, 128) for seed in range(100, 108)]
    running.assess(fresh[:1])
    before = Counter(running.usage)
    running.assess(fresh[1:])
    spent = running.usage - before
    words = running.prompter.tokens(running._protocol.prompt).token_ids
    before_picture = words.index(running.prompter.image_token_id)
    assert spent["requests"] == 7
    assert spent["prompt"] == 7 * (len(words) - 1 + 96 * 128 // 32**2)
    assert spent["generated"] == 0
    assert 7 * (before_picture - 128) < spent["cached"] <= 7 * before_picture, "the cache works in blocks of 128 tokens"


def test_most_pictures_are_prepared_without_vllm_and_answered_alike(engine: Callable[..., Any]) -> None:
    """The second picture of a grid of patches is; the first, of another engine, is prepared by vLLM itself.

    96 x 128 px are whole patches, which take no image processor. 155 x 97 px have the grid of 150 x 100.
    """
    running = engine("vllm", protocol="slots")
    sizes = [(96, 128), (150, 100), (155, 97), (20, 12), (700, 900)]
    views = [picture(1000 + number, *size) for number, size in enumerate(sizes)]
    running._inputs._patterns.clear()
    running.assess([picture(2000 + number, *size) for number, size in enumerate(sizes)])
    found = probabilities(running.assess(views))
    assert [pattern is not None for pattern in running._inputs._patterns.values()] == [True] * 4
    pixels, _ = running._inputs._pixels(prepared(views[0].pixels, MAX_PIXELS))
    assert pixels.shape == (96 * 128 // 16**2, 3 * 16**2), "each once, not as a video of two equal frames"
    running._inputs._patterns.clear()
    np.testing.assert_allclose(found, probabilities(running.assess(views)), atol=1e-5)


def test_transformers_tells_what_it_spent(engine: Callable[..., Any]) -> None:
    """40 pictures in batches of 16: of the second and all later ones the text before the picture is not read again."""
    running = engine("transformers", protocol="slots")
    prompt = running.prompter.tokens(running._protocol.prompt).token_ids
    before_picture, num_prompt = prompt.index(running.prompter.image_token_id), len(prompt) - 1 + 96 * 128 // 32**2
    running.assess([picture(0, 96, 128)])
    before = Counter(running.usage)
    running.assess([picture(seed, 96, 128) for seed in range(40)])
    spent = running.usage - before
    assert spent == {"requests": 40, "prompt": 40 * num_prompt, "cached": 40 * before_picture}


@pytest.mark.parametrize("name", ["json", "severity", "binary:ours-1"])
def test_both_engines_count_alike_what_they_read_and_write(engine: Callable[..., Any], name: str) -> None:
    """What is cached differs, as each has a cache of its own; answers that are cut off are counted to their end."""
    views, counts = [picture(seed, 96, 128) for seed in (130, 131, 132)], {}
    for each in ("transformers", "vllm"):
        running = engine(each, protocol="json")
        before = Counter(running.usage)
        running.assess_with(protocol(name), views)
        counts[each] = {kind: number for kind, number in (running.usage - before).items() if kind != "cached"}
    assert counts["transformers"] == counts["vllm"]
    assert counts["vllm"]["requests"] == 3
    assert counts["vllm"]["generated"] >= 3


def test_a_shared_prefix_changes_nothing(engine: Callable[..., Any], views: list[View]) -> None:
    import torch

    running = engine("transformers", protocol="slots")
    prompt = running._protocol.prompt
    tokens = running.prompter.tokens(prompt)
    with torch.inference_mode():
        whole = [
            running._read(running.prefill([running._request(prompt, tokens, view)], ()), tokens)[0] for view in views
        ]
    np.testing.assert_allclose(probabilities(running.assess(views)), whole, atol=1e-5)


def test_the_order_and_size_of_batches_do_not_matter(engine: Callable[..., Any], views: list[View]) -> None:
    for name in ("transformers", "vllm"):
        running = engine(name, protocol="slots")
        together = probabilities(running.assess(views))
        np.testing.assert_allclose(probabilities(running.assess(views[::-1]))[::-1], together, atol=1e-5)
        np.testing.assert_allclose(probabilities([running.assess([v])[0] for v in views]), together, atol=1e-5)


def test_several_threads_ask_one_vllm_at_once(engine: Callable[..., Any], views: list[View]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    running = engine("vllm", protocol="slots")
    expected = probabilities(running.assess(views))
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(running.assess, [views] * 8):
            np.testing.assert_allclose(probabilities(found), expected, atol=1e-5)


FIRST = {"protocol": "binary:first", "prompt_file": b"answers: {yes: [Yes, yes], no: [No]}"}


def test_the_first_token_is_read_in_one_prefill_and_nothing_is_written(engine: Callable[..., Any]) -> None:
    views = [picture(seed, 96, 128) for seed in range(140, 147)]
    chances = {}
    for name in ("transformers", "vllm"):
        running = engine(name, **FIRST)
        before = Counter(running.usage)
        outcomes = running.assess(views)
        spent = running.usage - before
        assert (spent["requests"], spent["generated"]) == (7, 0)
        assert all(outcome.private is (outcome.prob_private >= 0.5) for outcome in outcomes)
        chances[name] = [outcome.prob_private for outcome in outcomes]
        again = [outcome.prob_private for outcome in running.assess(views)]
        np.testing.assert_allclose(again, chances[name], atol=1e-5)
    np.testing.assert_allclose(chances["transformers"], chances["vllm"], atol=1e-5)
    assert np.ptp(chances["vllm"]) > 0.01, "the answers must depend on the picture"


def test_the_first_token_has_the_probabilities_with_which_an_answer_begins(engine: Callable[..., Any]) -> None:
    """Those that the model itself gives to the first tokens of all spellings."""
    import torch

    view = picture(150, 96, 128)
    ours = engine("transformers", **FIRST)
    tokens = ours.prompter.tokens(ours._protocol.prompt)
    assert len(tokens.candidate_ids) == 3
    request = ours._request(ours._protocol.prompt, tokens, view)
    with torch.inference_mode():
        logits = ours.model(
            input_ids=request.token_ids[None], mm_token_type_ids=request.type_ids[None], **request.pixels
        ).logits
    spread = logits[0, -1].softmax(dim=-1)[list(tokens.candidate_ids)]
    for running in (ours, engine("vllm", **FIRST)):
        (outcome,) = running.assess([view])
        assert outcome.prob_private == pytest.approx(float(spread[:2].sum() / spread.sum()), abs=1e-5)


def test_without_a_system_text_there_is_no_system_turn(engine: Callable[..., Any]) -> None:
    prompter = engine("transformers", protocol="slots").prompter
    for name in ("binary", "binary:first", "slots"):
        prompt = protocol(name, b"system: ''").prompt
        assert "<|im_start|>system" not in prompter.tokens(prompt).text
        assert prompter.tokens(prompt).text.startswith("<|im_start|>user\n")
    spoken = protocol("binary", b"system: You look at pictures.\nimage_first: true").prompt
    assert prompter.tokens(spoken).text.startswith(
        "<|im_start|>system\nYou look at pictures.<|im_end|>\n"
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Is there private"
    )


def test_what_a_model_is_tuned_to_write_ends_its_turn(engine: Callable[..., Any]) -> None:
    prompter = engine("transformers", protocol="slots").prompter
    for name, answer in (("binary", "Yes"), ("binary:first", "No"), ("severity", "0.85")):
        prompt = protocol(name).prompt
        ids = prompter.answer_ids(prompt, answer)
        assert prompter.tokenizer.decode(ids) == f"{answer}<|im_end|>"
        whole = prompter.tokenizer.decode([*prompter.tokens(prompt).token_ids, *ids])
        assert whole == f"{prompter.tokens(prompt).text}{answer}<|im_end|>"
    first = prompter.tokens(protocol("binary:first").prompt)
    assert [prompter.answer_ids(prompt, word)[0] for word in ("Yes", "No")] == list(first.candidate_ids)


def test_answers_that_begin_with_the_same_token_cannot_be_told_apart(engine: Callable[..., Any]) -> None:
    """A tokenizer without Greek letters writes both words as bytes, and the first byte is the same."""
    prompter = engine("transformers", protocol="slots").prompter
    alike = protocol("binary:first", "answers: {yes: [Ναι], no: [Όχι]}".encode())
    with pytest.raises(EngineError, match=r"begins the answers .Ναι. and .Όχι. with the same token") as refused:
        prompter.check(alike)
    assert "\n" not in str(refused.value)
    prompter.check(protocol("binary:first", "answers: {yes: [是], no: [否]}".encode()))


def test_vllm_takes_the_steps_of_a_batch_job_and_not_of_a_server(engine: Callable[..., Any]) -> None:
    """2,048 tokens and 128 requests are a server's; on a CPU twice as much is vLLM's own for many pictures at once."""
    running = engine("vllm", protocol="slots")
    result: object = running
    assert isinstance(result, TakesSteps)
    built_with = result.built_with
    assert (built_with["max_num_batched_tokens"], built_with["max_num_seqs"]) == (4096, 256)
    assert json.loads(json.dumps(built_with)) == built_with
    assert set(VllmOptions.model_fields) <= set(built_with)


def test_a_step_holds_as_many_pictures_as_their_tokens_beyond_the_shared_text(engine: Callable[..., Any]) -> None:
    running = engine("vllm", protocol="slots")
    running.assess([picture(3000 + number, 160, 160) for number in range(40)])
    usage = running.usage
    per_request = (usage["prompt"] - usage["cached"]) / usage["requests"]
    assert running.requests_per_step == int(4096 / per_request)
    assert (running.num_requests, running.num_prepared) == (0, 0)


def test_part_of_a_gpu_means_part_of_its_memory_unless_the_user_says_how_much() -> None:
    from vllm import AsyncEngineArgs

    from scoring.engines.vlm.vllm.engine import VllmSetup

    whole = AsyncEngineArgs.gpu_memory_utilization
    assert VllmSetup().arguments() == {}
    assert VllmSetup(gpu_share=0.5).arguments() == {"gpu_memory_utilization": whole / 2}
    assert 2 * whole / 2 <= 1
    chosen = VllmSetup({"gpu_memory_utilization": 0.3, "cudagraph_mode": "none"}, gpu_share=0.5)
    assert chosen.arguments() == {"gpu_memory_utilization": 0.3, "compilation_config": {"cudagraph_mode": "none"}}
    assert [VllmSetup(cpus=cpus).num_preparing_threads for cpus in (None, 1, 3.5, 8)] == [2, 2, 4, 8]

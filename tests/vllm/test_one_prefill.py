"""One prefill per picture, no token generated; the text before the picture is computed once for all pictures; what
is answered does not depend on the batch."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scoring.assessment import ReportsTokenUsage, View
from scoring.protocols import protocol
from scoring.protocols.interface import ProtocolOptions
from tests.vllm.conftest import picture, probabilities


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


def test_vllm_asks_again_for_the_slots_of_a_picture_that_it_knows(engine: Callable[..., Any]) -> None:
    running = engine("vllm", protocol="slots")
    known = [picture(110, 96, 128)]
    first = probabilities(running.assess(known))
    before = Counter(running.usage)
    np.testing.assert_allclose(probabilities(running.assess(known)), first, atol=1e-5)
    assert (running.usage - before)["requests"] == 2


def test_json_costs_hundreds_of_tokens_where_slots_costs_none(engine: Callable[..., Any]) -> None:
    running = engine("vllm", protocol="json")
    before = Counter(running.usage)
    running.assess([picture(120, 96, 128)])
    assert (running.usage - before)["generated"] > 100


def test_transformers_computes_the_text_before_the_picture_once(engine: Callable[..., Any]) -> None:
    running = engine("transformers", protocol="slots")
    fresh = [picture(seed, 96, 128) for seed in range(40)]
    running.assess(fresh[:1])
    before = running.prefill.num_forward_tokens
    running.assess(fresh)
    tokens = running.prompter.tokens(running._protocol.prompt).token_ids
    after_prefix = len(tokens) - tokens.index(running.prompter.image_token_id) - 1 + 96 * 128 // 32**2
    assert running.prefill.num_forward_tokens - before == after_prefix * len(fresh)


def test_transformers_tells_what_it_spent(engine: Callable[..., Any]) -> None:
    """40 pictures in batches of 16: of the second and all later ones the text before the picture is not read again."""
    running = engine("transformers", protocol="slots")
    told: object = running
    assert isinstance(told, ReportsTokenUsage)
    prompt = running.prompter.tokens(running._protocol.prompt).token_ids
    before_picture, num_prompt = prompt.index(running.prompter.image_token_id), len(prompt) - 1 + 96 * 128 // 32**2
    running.assess([picture(0, 96, 128)])
    before = Counter(running.usage)
    running.assess([picture(seed, 96, 128) for seed in range(40)])
    spent = running.usage - before
    assert spent == {"requests": 40, "prompt": 40 * num_prompt, "cached": 40 * before_picture}


@pytest.mark.parametrize("name", ["json", "severity", "binary:p1"])
def test_both_engines_count_alike_what_they_read_and_write(engine: Callable[..., Any], name: str) -> None:
    """What is cached differs, as each has a cache of its own; answers that are cut off are counted to their end."""
    views, counts = [picture(seed, 96, 128) for seed in (130, 131, 132)], {}
    for each in ("transformers", "vllm"):
        running = engine(each, protocol="json")
        before = Counter(running.usage)
        running.assess_with(protocol(name, ProtocolOptions()), views)
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
            running._slots(running.prefill([running._request(prompt, tokens, view)], ()), tokens)[0].probabilities
            for view in views
        ]
    np.testing.assert_allclose(probabilities(running.assess(views)), whole, atol=1e-5)


def test_the_order_and_size_of_batches_do_not_matter(engine: Callable[..., Any], views: list[View]) -> None:
    for name in ("transformers", "vllm"):
        running = engine(name, protocol="slots")
        together = probabilities(running.assess(views))
        np.testing.assert_allclose(probabilities(running.assess(views[::-1]))[::-1], together, atol=1e-5)
        np.testing.assert_allclose(probabilities([running.assess([v])[0] for v in views]), together, atol=1e-5)


def test_the_same_picture_twice_in_a_batch_is_answered_twice(engine: Callable[..., Any]) -> None:
    twice = [picture(70, 96, 128), picture(71, 96, 128), picture(70, 96, 128), picture(70, 96, 128)]
    for name in ("transformers", "vllm"):
        found = probabilities(engine(name, protocol="slots").assess(twice))
        np.testing.assert_allclose(found[2:], found[[0, 0]], atol=1e-5)
        assert np.abs(found[0] - found[1]).max() > 1e-3


def test_several_threads_ask_one_vllm_at_once(engine: Callable[..., Any], views: list[View]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    running = engine("vllm", protocol="slots")
    expected = probabilities(running.assess(views))
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(running.assess, [views] * 8):
            np.testing.assert_allclose(probabilities(found), expected, atol=1e-5)

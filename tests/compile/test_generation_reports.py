"""Inputs of public reports about `generate`, caches and masks, with `optimize` and without."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import cpuaccel
from benchmarks.models import _decoder_families
from benchmarks.models._decoder_families import VOCABULARY
from compile._compiled import needs_onednn

try:
    import transformers

    assert transformers.LlamaForCausalLM  # imports what an installation may lack
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_onednn

_WINDOW = 12
"""Of the models of `_decoder_families` that have one."""

Pair = tuple[Any, Any]
"""A model, and what `optimize` returned for it."""


def _pair(family: str, **options: Any) -> Pair:
    model = _decoder_families.build(family, **options)
    return model, cpuaccel.optimize(model, time_budget=0, sizes_budget=0)


@pytest.fixture(scope="module")
def llama() -> Pair:
    return _pair("Llama", num_hidden_layers=1)


@pytest.fixture(scope="module")
def gemma() -> Pair:
    """Its first layer has a window, its second one has none."""
    return _pair("Gemma 3")


def _prompt(batch: int = 1, tokens: int = 20, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (batch, tokens), generator=generator)


def _padded(batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Return prompts with more padding on the left in each row, and their mask."""
    prompt = _prompt(batch, tokens)
    mask = torch.ones_like(prompt)
    for row in range(1, batch):
        prompt[row, : 4 * row] = mask[row, : 4 * row] = 0
    return prompt, mask


def _tokens(model: Any, prompt: Tensor, **options: Any) -> Tensor:
    found: Tensor = model.generate(prompt, **{"max_new_tokens": 16, "do_sample": False, **options})
    return found


def _assert_like_the_model(pair: Pair, call: Callable[[Any], Tensor]) -> None:
    """Compare the model with cpuaccel on, and calls of optimize's result, with the model alone."""
    model, fast = pair
    with torch.no_grad():
        with cpuaccel.enabled(False):
            expected = call(model)
        for each in (model, fast, fast):
            torch.testing.assert_close(call(each), expected, equal_nan=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_left_padding_of_batches(name: str, request: pytest.FixtureRequest) -> None:
    # https://github.com/huggingface/transformers/issues/47651
    prompt, mask = _padded(4, 33)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)

    def call(model: Any) -> Tensor:
        scores: Tensor = model(prompt, attention_mask=mask, position_ids=positions).logits
        return scores[:, -1]

    _assert_like_the_model(request.getfixturevalue(name), call)


def test_a_row_without_tokens(llama: Pair) -> None:
    # https://github.com/huggingface/transformers/issues/38690
    prompt, mask = _padded(3, 17)
    mask[2] = 0
    _assert_like_the_model(llama, lambda model: model(prompt, attention_mask=mask).logits)


def test_attention_of_a_row_without_keys() -> None:
    # https://github.com/pytorch/pytorch/issues/103749
    query, key, value = torch.randn(1, 2, 6, 8), torch.randn(1, 2, 10, 8), torch.randn(1, 2, 10, 8)
    mask = torch.ones(6, 10, dtype=torch.bool).tril()
    mask[5] = False
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    with cpuaccel.enabled(False):
        expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_right_padding(llama: Pair) -> None:
    # https://github.com/huggingface/transformers/issues/29419
    prompt, mask = (each.flip(1) for each in _padded(3, 17))
    _assert_like_the_model(llama, lambda model: model(prompt, attention_mask=mask).logits)


@pytest.mark.parametrize("tokens", [_WINDOW - 2, _WINDOW - 1, _WINDOW, _WINDOW + 1])
def test_prompts_about_as_long_as_the_window(gemma: Pair, tokens: int) -> None:
    # https://github.com/huggingface/transformers/issues/37574
    _assert_like_the_model(gemma, lambda model: _tokens(model, _prompt(1, tokens)))


def test_an_assistant_beyond_the_window(gemma: Pair) -> None:
    # https://github.com/huggingface/transformers/pull/48280
    assistant = _decoder_families.build("Gemma 3")
    options = {"assistant_model": assistant, "num_assistant_tokens": 5}
    _assert_like_the_model(gemma, lambda model: _tokens(model, _prompt(), **options))


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_a_cache_of_a_batch_goes_on(name: str, request: pytest.FixtureRequest) -> None:
    # https://github.com/huggingface/transformers/issues/34232
    prompt, mask = _padded(2, 12)

    def call(model: Any) -> Tensor:
        options = {"max_new_tokens": 4, "return_dict_in_generate": True}
        first: Any = _tokens(model, prompt, attention_mask=mask, **options)
        longer = torch.cat([first.sequences, _prompt(2, 3, seed=5)], dim=1)
        masked = torch.cat([mask, torch.ones(2, 7, dtype=torch.int64)], dim=1)
        cache = first.past_key_values
        return _tokens(model, longer, attention_mask=masked, past_key_values=cache)

    _assert_like_the_model(request.getfixturevalue(name), call)


def test_a_copied_cache_of_a_prefix(llama: Pair) -> None:
    # https://github.com/huggingface/transformers/issues/32019
    prefix = _prompt(1, 9, seed=3)

    def call(model: Any) -> Tensor:
        cache = model(prefix).past_key_values
        prompts = (torch.cat([prefix, _prompt(1, 6, seed)], dim=1) for seed in range(2))
        return torch.cat(
            [_tokens(model, each, past_key_values=copy.deepcopy(cache)) for each in prompts]
        )

    _assert_like_the_model(llama, call)


def test_a_static_cache_of_a_padded_batch(llama: Pair) -> None:
    # https://github.com/huggingface/transformers/issues/30670
    prompt, mask = _padded(3, 14)
    options = {"attention_mask": mask, "cache_implementation": "static"}
    _assert_like_the_model(llama, lambda model: _tokens(model, prompt, **options))


@pytest.mark.parametrize("cache", [None, "static"])
def test_embeddings_as_a_prompt(llama: Pair, cache: str | None) -> None:
    # https://github.com/huggingface/transformers/issues/32911
    embedded = llama[0].get_input_embeddings()(_prompt()).detach()

    def call(model: Any) -> Tensor:
        options = {"max_new_tokens": 16, "do_sample": False, "cache_implementation": cache}
        found: Tensor = model.generate(inputs_embeds=embedded, **options)
        return found

    _assert_like_the_model(llama, call)


def test_a_cache_and_a_mask_with_padding(llama: Pair) -> None:
    # https://github.com/huggingface/transformers/issues/4130
    mask = torch.tensor([[0, 1, 1, 1, 1]])
    positions = torch.tensor([[0, 0, 1, 2, 3]])

    def call(model: Any) -> Tensor:
        first = model(_prompt(1, 4), attention_mask=mask[:, :4], position_ids=positions[:, :4])
        scores: Tensor = model(
            _prompt(1, 1, seed=2),
            attention_mask=mask,
            position_ids=positions[:, 4:],
            past_key_values=first.past_key_values,
        ).logits
        return scores

    _assert_like_the_model(llama, call)


def test_a_cache_without_a_mask() -> None:
    # https://github.com/huggingface/transformers/issues/21685
    def call(model: Any) -> Tensor:
        cache = model(_prompt(1, 6), attention_mask=torch.ones(1, 6, dtype=torch.int64))
        scores: Tensor = model(_prompt(1, 3, seed=4), past_key_values=cache.past_key_values).logits
        return scores

    _assert_like_the_model(_pair("OPT", num_hidden_layers=1), call)


def test_masks_of_four_dimensions(llama: Pair) -> None:
    # https://github.com/huggingface/transformers/issues/34835
    lowest = torch.finfo(torch.float32).min
    mask = torch.full((6, 6), lowest).triu(1)[None, None]

    def call(model: Any) -> Tensor:
        first = model(_prompt(1, 6), attention_mask=mask)
        cache, zeros = first.past_key_values, torch.zeros(1, 1, 1, 7)
        scores: Tensor = model(
            _prompt(1, 1, seed=2), attention_mask=zeros, past_key_values=cache
        ).logits
        return scores

    _assert_like_the_model(llama, call)


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_positions_that_begin_anew_separate_texts(
    name: str, request: pytest.FixtureRequest
) -> None:
    pair = request.getfixturevalue(name)
    first, second = _prompt(1, 9), _prompt(1, 9, seed=5)
    packed, positions = torch.cat([first, second], dim=1), torch.arange(9).repeat(2)[None]

    def call(model: Any) -> Tensor:
        scores: Tensor = model(packed, position_ids=positions, use_cache=False).logits
        return scores

    _assert_like_the_model(pair, lambda model: model(packed).logits)  # captures
    _assert_like_the_model(pair, call)
    # With a cache, the texts see each other.
    _assert_like_the_model(pair, lambda model: model(packed, position_ids=positions).logits)


def test_a_static_cache_in_two_generations_of_a_compiled_forward() -> None:
    # https://github.com/huggingface/transformers/issues/46858
    model = _decoder_families.build("GPT-2", num_hidden_layers=1)
    options = {"cache_implementation": "static", "max_new_tokens": 1}
    prompts = _prompt(1, 5), _prompt(1, 7)
    expected = [_tokens(model, prompt, **options) for prompt in prompts]
    model.forward = torch.compile(model.forward, backend="cpuaccel")
    found = [_tokens(model, prompt, **options) for prompt in prompts]
    assert all(map(torch.equal, found, expected))


def test_a_rotary_embedding_that_depends_on_the_length() -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    options = {"max_position_embeddings": 24, "num_hidden_layers": 1}
    name = "rope_scaling" if transformers.__version__.startswith("4.") else "rope_parameters"
    pair = _pair("Llama", **options, **{name: rope})
    cpuaccel.reset_stats()
    _assert_like_the_model(pair, lambda model: _tokens(model, _prompt(1, 10), max_new_tokens=24))
    assert any("a rotary embedding of type dynamic" in name for name in _fallbacks())


def test_a_cache_that_cannot_be_copied_runs_the_model(llama: Pair) -> None:
    class OtherCache(transformers.DynamicCache):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer_class_to_replicate = OtherLayer
            self.stream = (each for each in ())  # cannot be copied

    class OtherLayer(transformers.cache_utils.DynamicLayer):  # type: ignore[misc]
        pass

    model, fast = llama
    cpuaccel.reset_stats()
    found = _tokens(fast, _prompt(), past_key_values=OtherCache())
    assert torch.equal(found, _tokens(model, _prompt()))
    assert any("no copy of the cache" in name for name in _fallbacks())


@pytest.mark.parametrize("family", ["Bloom", "Falcon"])
def test_models_with_attention_of_their_own_run_with_a_reason(family: str) -> None:
    pair = _pair(family)
    cpuaccel.reset_stats()
    _assert_like_the_model(pair, lambda model: _tokens(model, _prompt()))
    assert all("call no attention function of transformers" in name for name in _fallbacks())


@pytest.mark.skipif(
    transformers.__version__.startswith("4."),
    reason="transformers 4 chooses experts by data, which cannot be traced",
)
def test_sinks_of_attention_are_captured() -> None:
    pair = _pair("GPT-OSS")
    cpuaccel.reset_stats()
    _assert_like_the_model(pair, lambda model: _tokens(model, _prompt()))
    assert not _fallbacks()


def _fallbacks() -> list[str]:
    return [name for name in cpuaccel.stats()["fallbacks"] if name.startswith("optimize: ")]

"""Masks of transformers as patterns, compared with the masks that transformers makes itself."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from cpuaccel.compile.capture.mask_patterns import Pattern, config_for_patterns, made

try:
    import transformers
    from transformers.cache_utils import DynamicCache, StaticCache
    from transformers.masking_utils import create_masks_for_generate
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

_BATCH = 2


def _config(name: str, attention: str = "sdpa", **options: Any) -> Any:
    sizes = {"num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = getattr(transformers, f"{name}Config")(**sizes, hidden_size=16, **options)
    config._attn_implementation = attention
    return config


def _cache(config: Any, past: int) -> Any:
    cache = DynamicCache(config=config)
    for layer in range(config.num_hidden_layers if past else 0):
        cache.update(torch.zeros(_BATCH, 1, past, 8), torch.zeros(_BATCH, 1, past, 8), layer)
    return cache


def _masks(config: Any, tokens: int, cache: Any, mask: Any, **options: Any) -> Any:
    past = 0 if cache is None else cache.get_seq_length()
    nothing = torch.empty(_BATCH, tokens, 0)
    names = ("inputs_embeds", "cache")
    if int(transformers.__version__.partition(".")[0]) < 5:
        names = ("input_embeds", "past_key_values")
        options["cache_position"] = torch.arange(past, past + tokens)
    given = {names[0]: nothing, names[1]: cache, "attention_mask": mask, "position_ids": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_masks_for_generate(config=config, **{**given, **options})


def _meaning(mask: Any, tokens: int, keys: int) -> Tensor:
    """Return what a mask lets attentions see; None is causal: N x tokens x keys."""
    if mask is None:
        seen = torch.ones(tokens, keys, dtype=torch.bool).tril(keys - tokens)
        return seen.expand(_BATCH, -1, -1)
    if isinstance(mask, Pattern):
        distance = torch.arange(mask.past, keys)[:, None] - torch.arange(keys)
        seen = distance >= 0
        if mask.window:
            seen &= distance < mask.window
        seen = seen.expand(_BATCH, -1, -1)
        return seen if mask.added is None else seen & (mask.added[:, 0] == 0)
    seen = mask if mask.dtype == torch.bool else mask == 0
    return seen[:, 0].expand(_BATCH, -1, -1)


_CONFIGS = {
    "Llama": {},
    "Mistral": {"sliding_window": 6},
    "Gemma3Text": {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"] * 2},
}


def _padding(kind: str, count: int) -> Tensor | None:
    if kind == "none":
        return None
    mask = torch.ones(_BATCH, count, dtype=torch.int64)
    if kind != "ones":
        mask[1, slice(None, 3) if kind == "left" else slice(-2, None)] = 0
    return mask


@pytest.mark.parametrize("padding", ["none", "ones", "left", "right"])
@pytest.mark.parametrize("past", [0, 4, 9])
@pytest.mark.parametrize("name", _CONFIGS)
def test_a_pattern_says_what_the_mask_says(name: str, past: int, padding: str) -> None:
    config = _config(name, **_CONFIGS[name])
    for tokens in (2, 5, 20):
        mask = _padding(padding, past + tokens)
        cache = _cache(config, past)
        masks = _masks(config, tokens, cache, mask)
        patterns = _masks(config_for_patterns(config), tokens, cache, mask)
        if not isinstance(masks, dict):
            masks, patterns = {"": masks}, {"": patterns}
        assert masks.keys() == patterns.keys()
        for kind, expected in masks.items():
            found = patterns[kind]
            assert isinstance(found, Pattern)
            keys = found.past + found.tokens
            assert torch.equal(_meaning(found, tokens, keys), _meaning(expected, tokens, keys))
            again = made(found)
            assert (again is None) == (expected is None)
            assert again is None or torch.equal(again, expected)


@pytest.mark.parametrize("name", _CONFIGS)
def test_eager_attentions_have_patterns_without_padding(name: str) -> None:
    config = _config(name, "eager", **_CONFIGS[name])
    patterns = config_for_patterns(config)
    for mask, is_pattern in ((_padding("ones", 7), True), (_padding("left", 7), False)):
        expected = _masks(config, 7, _cache(config, 0), mask)
        found = _masks(patterns, 7, _cache(config, 0), mask)
        if not isinstance(expected, dict):
            expected, found = {"": expected}, {"": found}
        for kind, each in expected.items():
            assert isinstance(found[kind], Pattern) == is_pattern
            assert torch.equal(made(found[kind]), each)


def test_other_masks_are_made() -> None:
    config = _config("Llama")
    patterns = config_for_patterns(config)
    static = StaticCache(config=config, max_cache_len=32)
    packed = torch.tensor([[0, 1, 2, 0, 1]]).expand(_BATCH, -1)

    def first_two(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return key < 2

    cases: list[tuple[Any, dict[str, Any]]] = [
        (static, {}),
        (None, {"position_ids": packed}),
        (_cache(config, 0), {"or_mask_function": first_two}),
        (_cache(config, 0), {"and_mask_function": first_two}),
        (_cache(config, 0), {"attention_mask": torch.ones(_BATCH, 1, 5, 5, dtype=torch.bool)}),
    ]
    for cache, options in cases:
        expected, found = (_masks(each, 5, cache, None, **options) for each in (config, patterns))
        assert (found is None) == (expected is None)
        assert found is None or torch.equal(found, expected)


def test_chunks_are_made() -> None:
    config = _config("Llama4Text", attention_chunk_size=4, layer_types=["chunked_attention"] * 4)
    cache = _cache(config, 0)
    expected, found = (
        _masks(each, 7, cache, None)["chunked_attention"]
        for each in (config, config_for_patterns(config))
    )
    assert isinstance(found, Tensor)
    assert torch.equal(found, expected)


def test_a_config_stays_as_it_is() -> None:
    config = _config("Llama")
    before = config.to_dict()
    copied = config_for_patterns(config)
    assert copied is not config
    assert config.to_dict() == before
    assert config._attn_implementation == "sdpa"

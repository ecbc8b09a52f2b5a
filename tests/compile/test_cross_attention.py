"""Attention to an encoder's keys and values as a step of a plan, beside a cache of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile import test_cache_room as rooms
from compile._compiled import needs_onednn
from cpuaccel.compile.capture.attention_function import Heads
from cpuaccel.compile.capture.cached_attention import CachedCall, Site, Sites, cached_call
from cpuaccel.compile.capture.cross_attention import CrossCall, cross_call
from cpuaccel.compile.common.plain_calls import plain_calls

sdpa = pytest.importorskip("transformers.integrations.sdpa_attention")

pytestmark = needs_onednn

BATCH, HEADS, WIDTH, STATES = 2, 4, 16, 11


class _Module(nn.Module):
    num_key_value_groups = 1
    is_causal = False


def _sites(groups: int = 1, mask: str | None = "cross", **options: Any) -> Sites:
    module = _Module()
    module.num_key_value_groups = groups
    attend = sdpa.sdpa_attention_forward
    given = {"scaling": 0.3, "dropout": 0.0, **options}
    found = Sites()
    found.found = [
        Site(module, attend, 0, "self", given, Heads(HEADS, HEADS // groups, WIDTH, torch.float32)),
        Site(module, attend, 0, mask, given, is_cross=True),
    ]
    return found


class _Caches:
    """A cache of a decoder, which a step was already added to, and one of an encoder."""

    def __init__(self, dtype: torch.dtype, int8: bool = False, groups: int = 1) -> None:
        torch.manual_seed(0)
        self.dtype, self.kept = dtype, HEADS // groups
        self.own, self.encoded = rooms._cache(dtype, int8=int8), rooms._cache(dtype)
        shape = (BATCH, self.kept, STATES, WIDTH)
        self.encoded.update(*(torch.randn(shape).to(dtype) for _ in range(2)), 0)

    def run(self, sites: Sites, masks: Any, tokens: int = 1, by_step: bool = True) -> Tensor:
        query, key, value = (
            torch.randn(BATCH, tokens, heads, WIDTH).to(self.dtype).transpose(1, 2)
            for heads in (HEADS, self.kept, self.kept)
        )
        own = CachedCall(sites, self.own, masks, (BATCH, tokens), self.encoded)
        cross = CrossCall(sites, self.encoded, masks["cross"], 0)
        attend: Any = torch.ops.cpuaccel.cross_attention
        with torch.no_grad(), cached_call(own), cross_call(cross):
            torch.ops.cpuaccel.cached_attention(query, key, value, 0)
            if by_step:
                return rooms._by_step(query, name="cross_attention", site=1)
            found: Tensor = attend(query, 1)
            return found


def _masks(tokens: int, boolean: bool) -> dict[str, Any]:
    mask = torch.ones(BATCH, 1, tokens, STATES, dtype=torch.bool)
    mask[1, ..., :3] = False
    if not boolean:
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    return {"self": None, "cross": mask}


def _same(dtype: torch.dtype, masks: Any, sites: Sites, tokens: int = 1, **options: Any) -> None:
    found, expected = [], []
    for by_step, results in ((True, found), (False, expected)):
        caches = _Caches(dtype, **options)
        for _ in range(4):
            results.append(caches.run(sites, masks, tokens, by_step))
    bound = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_dtypes_and_groups_of_heads(dtype: torch.dtype, int8: bool, groups: int) -> None:
    masks = {"self": None, "cross": None}
    _same(dtype, masks, _sites(groups, mask=None), int8=int8, groups=groups)


@pytest.mark.parametrize("boolean", [True, False])
def test_masks_of_padding(boolean: bool) -> None:
    _same(torch.float32, _masks(1, boolean), _sites())


def test_steps_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    caches, sites, masks = _Caches(torch.float32), _sites(), _masks(1, True)
    caches.run(sites, masks)
    caches.run(sites, masks)
    monkeypatch.setattr(CrossCall, "attend", lambda *_: pytest.fail("Python attended"))
    caches.run(sites, masks)


def test_the_encoders_cache_stays_as_it_is() -> None:
    caches, sites, masks = _Caches(torch.float32), _sites(), _masks(1, True)
    layer = caches.encoded.layers[0]
    keys, values = layer.keys.clone(), layer.values.clone()
    for _ in range(3):
        caches.run(sites, masks)
    assert torch.equal(layer.keys, keys)
    assert torch.equal(layer.values, values)
    assert caches.own.get_seq_length() == 3


def test_validations_write_to_a_copy() -> None:
    caches, sites, masks = _Caches(torch.float32), _sites(), _masks(1, True)
    caches.run(sites, masks)
    with plain_calls():
        caches.run(sites, masks)
    assert caches.own.get_seq_length() == 1


def test_attentions_that_would_be_causal_are_left_to_python() -> None:
    assert all(site.kernel is not None for site in _sites().found)
    own, cross = _sites(is_causal=True).found
    assert own.kernel is not None
    assert cross.kernel is None

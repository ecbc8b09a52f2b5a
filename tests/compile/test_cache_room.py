"""Caches that decoders' attentions write in place, compared with transformers' own."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn
from cpuaccel.compile.capture import cache_room
from cpuaccel.compile.capture.attention_function import Heads
from cpuaccel.compile.capture.cached_attention import CachedCall, Site, Sites, cached_call
from cpuaccel.compile.common.plain_calls import plain_calls

try:
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

_BATCH, _HEADS, _KEPT_HEADS, _WIDTH = 2, 4, 2, 16


class _Module(nn.Module):
    num_key_value_groups = _HEADS // _KEPT_HEADS
    is_causal = True


_SIZES = Heads(_HEADS, _KEPT_HEADS, _WIDTH, torch.float32)


def _sites(
    attend: Any = sdpa_attention_forward, heads: Heads | None = _SIZES, **options: Any
) -> Sites:
    given = {"scaling": 0.3, "dropout": 0.0, **options}
    found = Sites()
    found.found = [Site(_Module(), attend, 0, None, given, heads)]
    return found


_NONE = torch.zeros(0)
_DIRECT = _sites()
_PLAIN = _sites(lambda *given, **options: sdpa_attention_forward(*given, **options), None)


_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def _by_step(*given: Tensor, name: str = "cached_attention", site: int = 0) -> Tensor:
    """Run an attention as the step of a plan."""
    query, count = given[0], len(given)
    result = (query.shape[0], query.shape[2], query.shape[1], query.shape[3])
    shapes = [each.shape for each in given] + [result]
    kind = _TYPES[query.dtype]
    lines = [f"value {i} {kind} {'x'.join(map(str, shape))}" for i, shape in enumerate(shapes)]
    inputs = " ".join(map(str, range(count)))
    text = "\n".join(
        [
            f"graph 1 {name} {kind} {shapes}",
            *lines,
            f"input {inputs}",
            f"output {count} contiguous",
            "partition",
            f"op {name} in {inputs} out {count} site=i:{site}",
        ]
    )
    op = [f"cpuaccel.{name}.default", [{"value": i} for i in range(count)] + [site], {}]
    by_torch = json.dumps({"ops": [op], "outputs": [[count, False]]})
    found: list[Tensor] = torch.ops.cpuaccel.graph_region(list(given), [], text, by_torch)
    return found[0]


def _step(
    sites: Sites,
    cache: Any,
    tokens: int = 1,
    seed: int = 0,
    mask: Any = None,
    by_step: bool = False,
    fails: bool = False,
) -> Tensor:
    """Append random keys and values to a cache, and attend to it."""
    generator = torch.Generator().manual_seed(seed)
    layer = cache.layers[0]
    batch = _BATCH if layer.keys is None else layer.keys.shape[0]  # no name holds the keys
    dtype = cache.dtype

    def heads(count: int) -> Tensor:
        shape = (batch, tokens, count, _WIDTH)  # as linear layers leave them
        return torch.randn(shape, generator=generator).to(dtype).transpose(1, 2)

    query, key, value = heads(_HEADS), heads(_KEPT_HEADS), heads(_KEPT_HEADS)
    with torch.no_grad(), cached_call(CachedCall(sites, cache, mask, (batch, tokens))):
        if by_step:
            attended = _by_step(query, key, value)
        else:
            attended = torch.ops.cpuaccel.cached_attention(query, key, value, 0)
        if fails:
            raise KeyboardInterrupt
    return attended


def _cache(dtype: torch.dtype = torch.float32, window: int = 0, int8: bool = False) -> Any:
    made = DynamicCache()
    made.layers = [DynamicSlidingWindowLayer(window) if window else DynamicLayer()]
    if int8:
        made.layers = [cpuaccel.quant.int8_cache().layer_class_to_replicate()]
    made.dtype = dtype
    return made


@pytest.fixture(params=[False, pytest.param(True, marks=needs_onednn)], ids=["op", "step"])
def by_step(request: pytest.FixtureRequest) -> bool:
    """Whether attentions are steps of plans."""
    found: bool = request.param
    return found


class _Pair:
    """A cache that is written in place, and one that transformers writes."""

    def __init__(self, by_step: bool, **options: Any) -> None:
        self.found, self.expected = _cache(**options), _cache(**options)
        self.by_step = by_step
        self.steps = 0
        self.bound = 1e-2 if "dtype" in options else 1e-4
        self.step(tokens=5)

    def step(self, count: int = 1, tokens: int = 1, mask: Any = None) -> None:
        for _ in range(count):
            self.steps += 1
            found = _step(_DIRECT, self.found, tokens, self.steps, mask, self.by_step)
            expected = _step(_PLAIN, self.expected, tokens, self.steps, mask)
            bound = self.bound
            torch.testing.assert_close(found, expected, rtol=bound, atol=bound)
            self.check()

    def both(self, change: Callable[[Any], Any]) -> None:
        change(self.found)
        change(self.expected)
        self.check()

    def branch(self, copied: Callable[[Any], Any]) -> _Pair:
        other = copy.copy(self)
        other.found, other.expected = copied(self.found), copied(self.expected)
        other.steps += 1000
        return other

    def check(self) -> None:
        found, expected = self.found.layers[0], self.expected.layers[0]
        assert torch.equal(found.keys, expected.keys)
        assert torch.equal(found.values, expected.values)
        for name in ("key_scales", "value_scales"):
            assert torch.equal(getattr(found, name, _NONE), getattr(expected, name, _NONE))
        assert self.found.get_seq_length() == self.expected.get_seq_length()

    def address(self) -> int:
        address: int = self.found.layers[0].keys.untyped_storage().data_ptr()
        return address


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_steps_write_in_place(by_step: bool, dtype: torch.dtype, int8: bool) -> None:
    pair = _Pair(by_step, dtype=dtype, int8=int8)
    pair.step()
    address = pair.address()
    held = pair.found.layers[0].keys  # so that no other buffer gets its address
    cpuaccel.reset_stats()
    pair.step(20)
    assert pair.address() == address
    pair.step(60)  # more than the spare positions
    assert pair.address() != address
    assert held.untyped_storage().data_ptr() == address


def test_views_that_others_hold_stay_as_they_are(by_step: bool) -> None:
    pair = _Pair(by_step)
    held = []
    for _ in range(50):
        pair.step()
        layer = pair.found.layers[0]
        held.append((layer.keys, layer.keys.clone(), layer.values, layer.values.clone()))
    for keys, kept_keys, values, kept_values in held:
        assert torch.equal(keys, kept_keys)
        assert torch.equal(values, kept_values)


def _shallow(cache: Any) -> Any:
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    return copied


def _pickled(cache: Any) -> Any:
    return pickle.loads(pickle.dumps(cache))


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("copied", [_shallow, copy.deepcopy, _pickled])
def test_branches_of_one_cache(by_step: bool, copied: Callable[[Any], Any], int8: bool) -> None:
    one = _Pair(by_step, int8=int8)
    one.step(3)
    other = one.branch(copied)
    for _ in range(3):
        one.step(2)
        other.step(3)
        one.check()
    third = other.branch(copied)
    third.step()
    other.step()
    third.step()
    for pair in (one, other, third):
        pair.check()


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda cache: cache.crop(-2),
        lambda cache: cache.reorder_cache(torch.tensor([1, 1])),
        lambda cache: cache.batch_repeat_interleave(2),
        lambda cache: cache.batch_select_indices(torch.tensor([-1])),
        lambda cache: cache.layers[0].keys.neg_(),
        lambda cache: cache.layers[0].keys.set_(cache.layers[0].keys.clone()),
        lambda cache: setattr(cache.layers[0], "values", cache.layers[0].values.flip(2)),
    ],
    ids=["crop", "reorder", "repeat", "select", "write", "set", "replace"],
)
def test_changes_between_steps(by_step: bool, change: Callable[[Any], Any], int8: bool) -> None:
    pair = _Pair(by_step, int8=int8)
    pair.step(3)
    held = pair.found.layers[0].values
    kept = held.clone()
    for _ in range(2):
        pair.both(change)
        pair.step(2)
    assert torch.equal(held, kept)


@needs_onednn
def test_steps_of_plans_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = _Pair(by_step=True)
    pair.step()
    monkeypatch.setattr(CachedCall, "attend", lambda *_: pytest.fail("Python attended"))
    _step(_DIRECT, pair.found, by_step=True)


@pytest.mark.parametrize("window", [3, 9, 40])
def test_sliding_windows(by_step: bool, window: int) -> None:
    pair = _Pair(by_step, window=window)
    pair.step(90)
    pair.step(3)


def test_masks_of_left_padding(by_step: bool) -> None:
    for boolean in (True, False):
        pair = _Pair(by_step)
        for step in range(1, 40):
            mask = torch.ones(_BATCH, 1, 1, 5 + step, dtype=torch.bool)
            mask[1, ..., :3] = False
            floats = torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)
            pair.step(mask=mask if boolean else floats)


def test_several_tokens_in_a_step(by_step: bool) -> None:
    pair = _Pair(by_step)
    pair.step(3)
    for tokens in (2, 8):
        held = pair.found.get_seq_length()
        mask = torch.ones(tokens, held + tokens, dtype=torch.bool).tril(held)[None, None]
        pair.step(tokens=tokens, mask=mask)
    pair.step()


def test_validations_write_to_a_copy(by_step: bool) -> None:
    pair = _Pair(by_step)
    pair.step(2)
    keys = pair.found.layers[0].keys
    kept = keys.clone()
    with plain_calls():
        for _ in range(3):
            _step(_DIRECT, pair.found, by_step=by_step)
    assert pair.found.layers[0].keys is keys
    assert torch.equal(keys, kept)
    pair.step(2)


@needs_onednn
@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("window", [0, 4])
def test_a_failed_call_leaves_the_cache(window: int, int8: bool) -> None:
    pair = _Pair(by_step=True, **({"window": window} if window else {"int8": int8}))
    pair.step(2)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            _step(_DIRECT, pair.found, by_step=True, fails=True)
        pair.check()
        pair.step(2)


def test_a_failed_attention_leaves_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = _Pair(by_step=False)
    pair.step(2)

    def fail(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cache_room.Room, "hold", fail)
        with pytest.raises(KeyboardInterrupt):
            _step(_DIRECT, pair.found)
    pair.check()
    pair.step(2)


@needs_onednn
@pytest.mark.parametrize("options", [{}, {"int8": True}, {"window": 4}])
def test_a_tensor_that_only_the_layer_holds_grows(options: dict[str, Any]) -> None:
    pair = _Pair(by_step=True, **options)
    pair.step(3)
    addresses = [id(pair.found.layers[0].keys), id(pair.found.layers[0].values)]
    pair.step(3)
    assert addresses == [id(pair.found.layers[0].keys), id(pair.found.layers[0].values)]
    held = pair.found.layers[0].keys
    kept = held.clone()
    pair.step()
    assert pair.found.layers[0].keys is not held
    assert torch.equal(held, kept)


@needs_onednn
def test_one_of_two_calls_at_once_continues_in_place() -> None:
    pair = _Pair(by_step=True)
    pair.step(2)
    other = pair.branch(_shallow)
    call = CachedCall(_DIRECT, pair.found, None, (_BATCH, 1))
    with ThreadPoolExecutor(1) as thread, torch.no_grad(), cached_call(call):
        thread.submit(other.step, 2).result()
        pair.check()
    pair.check()
    pair.step(2)
    other.check()


@needs_onednn
def test_layers_that_record_the_past_are_not_written_in_place() -> None:
    pair = _Pair(by_step=True, window=4)
    pair.step(2)
    layer = pair.found.layers[0]
    held, kept = layer.keys, layer.keys.clone()
    layer.record_past = True
    _step(_DIRECT, pair.found, by_step=True)
    layer.record_past = False
    assert layer.keys is not held
    assert torch.equal(held, kept)
    assert layer.keys.untyped_storage().data_ptr() != held.untyped_storage().data_ptr()


def test_other_attentions_run_as_they_are() -> None:
    assert _DIRECT.found[0].kernel is not None
    assert _PLAIN.found[0].kernel is None
    assert _sites(softcap=30.0).found[0].kernel is None
    assert _sites(sliding_window=8, is_causal=True).found[0].kernel is not None


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_int8_row_with_a_number_that_is_not_finite_has_a_nan_as_scale(
    by_step: bool, number: float
) -> None:
    pair = _Pair(by_step, int8=True)
    key = torch.ones(_BATCH, _KEPT_HEADS, 1, _WIDTH)
    key[0, 0, 0, 3] = number
    query = torch.ones(_BATCH, _HEADS, 1, _WIDTH)
    for sites, cache in ((_DIRECT, pair.found), (_PLAIN, pair.expected)):
        with cached_call(CachedCall(sites, cache, None, (_BATCH, 1))), torch.no_grad():
            torch.ops.cpuaccel.cached_attention(query, key, torch.ones_like(key), 0)
        layer = cache.layers[0]
        assert layer.key_scales[:, :, -1].isnan().flatten().tolist() == [True, False, False, False]
        assert not layer.keys[0, 0, -1].any()


def test_a_failed_call_leaves_no_attentions() -> None:
    sites, traced = Sites(), [*_DIRECT.found]

    def fail() -> None:
        with sites.filled_by(traced):
            assert sites.found is traced
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert sites.found == []
    with sites.filled_by(traced):
        pass
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert sites.found is traced

"""Models of transformers with an encoder and a decoder: `optimize` without example inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import cpuaccel
from benchmarks.models import _decoder_families
from compile._compiled import needs_onednn
from cpuaccel.compile.capture.cached_attention import CachedCall
from cpuaccel.compile.capture.cross_attention import CrossCall
from cpuaccel.compile.capture.repeated_layers import RepeatedLayers
from cpuaccel.compile.frontend import same_class
from cpuaccel.compile.frontend.seq2seq_models import Seq2SeqPlans
from cpuaccel.compile.partition import cost

try:
    import transformers
    from transformers import T5ForConditionalGeneration  # imports what an installation may lack
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_onednn

# docs/guides/generate.md, "What is missing"
_needs_5 = pytest.mark.skipif(
    transformers.__version__.startswith("4."),
    reason="with transformers 4, T5 and models with a padded encoder's input have no captures",
)

VOCABULARY = 64


def _t5() -> Any:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        pad_token_id=0,
        eos_token_id=None,
    )
    config.decoder_start_token_id = 0
    return T5ForConditionalGeneration(config).eval()


def _whisper() -> Any:
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=100,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return transformers.WhisperForConditionalGeneration(config).eval()


def _texts(batch: int = 1, length: int = 9) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def _tokens(model: Any, source: Tensor, **options: Any) -> Tensor:
    torch.manual_seed(0)
    found: Tensor = model.generate(source, **{"max_new_tokens": 64, "do_sample": False, **options})
    return found


def _assert_same_tokens(model: Any, fast: Any, source: Tensor, **options: Any) -> None:
    assert torch.equal(_tokens(fast, source, **options), _tokens(model, source, **options))


def _fallbacks() -> dict[str, int]:
    counts = cpuaccel.stats()["fallbacks"]
    return {name: count for name, count in counts.items() if name.startswith("optimize: ")}


def _plans(fast: Any) -> Seq2SeqPlans:
    found = same_class.plans_of(fast)
    assert isinstance(found, Seq2SeqPlans)
    return found


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """A T5 and what `optimize` returned for it."""
    model = _t5()
    fast = cpuaccel.optimize(model, time_budget=0)
    _tokens(fast, _texts())  # captures
    return model, fast


@pytest.fixture(autouse=True)
def _counts() -> None:
    cpuaccel.reset_stats()


@_needs_5
def test_64_tokens_of_t5_for_texts_of_any_length(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    for length in (9, 17, 2):
        _assert_same_tokens(model, fast, _texts(1, length))
    assert not _fallbacks()
    captures = _plans(fast).captures()
    assert set(captures) == {"encoder: forward", "keys of the encoder", "steps of 1"}
    assert all(made.last()[0] is not None for made in captures.values())
    assert len(captures["encoder: forward"].reports) <= 2  # of these sizes, and of all


@_needs_5
def test_padding_of_the_encoder(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    texts = _texts(2, 12)
    mask = torch.ones_like(texts)
    mask[0, 7:] = 0
    mask[1, :3] = 0
    for _ in range(2):
        _assert_same_tokens(model, fast, texts * mask, attention_mask=mask)
    assert not _fallbacks()


@_needs_5
@pytest.mark.parametrize(
    "options",
    [{"num_beams": 2}, {"do_sample": True}, {"cache_implementation": "static"}],
    ids=["beams", "sampling", "static cache"],
)
def test_ways_to_generate(pair: tuple[Any, Any], options: dict[str, Any]) -> None:
    model, fast = pair
    for _ in range(2):
        _assert_same_tokens(model, fast, _texts(), **options)
    assert not _fallbacks()


@_needs_5
def test_start_tokens(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    for length in (5, 8):
        _assert_same_tokens(model, fast, _texts(), decoder_input_ids=_texts(1, length))
    assert "prompts" in _plans(fast).captures()
    assert not _fallbacks()


@_needs_5
def test_a_call_returns_what_the_model_returns(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    given = {"input_ids": _texts(), "decoder_input_ids": _texts(1, 1)}
    with torch.no_grad():
        for uses_cache in (True, False, True):
            expected = model(**given, use_cache=uses_cache)
            found = fast(**given, use_cache=uses_cache)
            assert type(found) is type(expected)
            assert found.keys() == expected.keys()
            torch.testing.assert_close(found.logits, expected.logits)
            torch.testing.assert_close(found[-1], expected[-1])  # the encoder's states
    assert not _fallbacks()


@_needs_5
def test_weights_of_the_bias_by_position_are_read_in_each_call() -> None:
    model = _t5()
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    _assert_same_tokens(model, fast, _texts())
    first = model.decoder.block[0].layer[0].SelfAttention
    with torch.no_grad():
        first.relative_attention_bias.weight.mul_(-3)
    _assert_same_tokens(model, fast, _texts())
    assert not _fallbacks()


def test_whisper() -> None:
    model = _whisper()
    fast = cpuaccel.optimize(model, time_budget=0)
    for batch in (1, 2, 1):
        sound = torch.randn(batch, 8, 40)
        start = torch.tensor([[3, 5, 6, 7]]).expand(batch, -1)
        _assert_same_tokens(model, fast, sound, max_new_tokens=60, decoder_input_ids=start)
    whole = torch.randn(1, 8, 60)
    for begin in (0, 7):  # as parts of a long sound
        _assert_same_tokens(model, fast, whole[..., begin : begin + 40], max_new_tokens=8)
    assert not _fallbacks()
    captures = _plans(fast).captures()
    assert set(captures) == {
        *("encoder: forward", "keys of the encoder", "prompts", "steps of 1", "steps of 2")
    }


@_needs_5
@pytest.mark.parametrize("family", ["BART", "mBART", "Marian", "Pegasus"])
def test_decoders_that_read_positions_from_the_cache(family: str) -> None:
    model = _decoder_families.build(family)
    fast = cpuaccel.optimize(model, time_budget=0)
    texts = _texts(2, 12)
    mask = torch.ones_like(texts)
    mask[0, 7:] = 0
    for options in ({}, {"attention_mask": mask}, {"num_beams": 2}, {"do_sample": True}):
        for count in (2, 1):
            given = {name: each[:count] if name == "attention_mask" else each
                     for name, each in options.items()}  # fmt: skip
            _assert_same_tokens(model, fast, texts[:count], min_new_tokens=64, **given)
    start = _texts(1, 20)
    for length in (20, 17):
        given = {"decoder_input_ids": start[:, :length], "max_new_tokens": 30}
        _assert_same_tokens(model, fast, texts[:1], **given)
    assert not _fallbacks()
    captures = _plans(fast).captures()
    assert {"encoder: forward", "keys of the encoder", "prompts", "steps of 1"} <= captures.keys()


def test_the_layers_of_a_decoder_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    paste = RepeatedLayers.paste

    def counted(self: Any, graph: Any) -> None:
        paste(self, graph)
        copied.append(len(self._copies))

    monkeypatch.setattr(RepeatedLayers, "paste", counted)
    model = _decoder_families.build("BART", decoder_layers=4, encoder_layers=1, num_hidden_layers=1)
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    _assert_same_tokens(model, fast, _texts(), max_new_tokens=8, min_new_tokens=8)
    assert 3 in copied
    sites = _plans(fast)._decoder.sites.found
    assert [site.is_cross for site in sites] == [False, True] * 4
    assert [site.layer for site in sites] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_steps_need_no_python_for_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _whisper()
    fast = cpuaccel.optimize(model, time_budget=0)
    sound, given = torch.randn(1, 8, 40), {"max_new_tokens": 20, "min_new_tokens": 20}
    expected = _tokens(model, sound, **given)
    _tokens(fast, sound, **given)
    calls: list[str] = []
    for kind in (CachedCall, CrossCall):
        attend = kind.attend

        def counted(self: Any, query: Tensor, *rest: Any, attend: Any = attend) -> Tensor:
            calls.append(type(self).__name__)
            return attend(self, query, *rest)

        monkeypatch.setattr(kind, "attend", counted)
    assert torch.equal(_tokens(fast, sound, **given), expected)
    layers = model.config.decoder_layers
    # The start tokens and the first step, for which the cache has no room yet.
    assert len(calls) <= 2 * 2 * layers


def test_captures_without_products_of_cpuaccel_run() -> None:
    model = _whisper()
    fast = cpuaccel.optimize(model, time_budget=0)
    sound, start = torch.randn(1, 8, 40), torch.tensor([[3, 5]])
    with cost.overrule({"product": False, "decoder step": False, "view": False}):
        for options in ({}, {"num_beams": 3}):
            given = {"decoder_input_ids": start, "max_new_tokens": 12, **options}
            _assert_same_tokens(model, fast, sound, **given)
    assert not _fallbacks()
    assert {"prompts", "steps of 1", "steps of 3"} <= _plans(fast).captures().keys()


@_needs_5
def test_tokens_that_are_a_slice(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    source, tokens = _texts(2), _texts(2, 9)
    with torch.no_grad():
        for end in (1, 4, 7):
            given = {"input_ids": source, "decoder_input_ids": tokens[:, end - 1 : end]}
            torch.testing.assert_close(fast(**given).logits, model(**given).logits)
    assert not _fallbacks()
    made = _plans(fast).captures()["steps of 2"]
    assert len(made.verdicts) == 1


def test_what_no_capture_runs_is_counted(pair: tuple[Any, Any]) -> None:
    _, fast = pair
    given = {"input_ids": _texts(), "decoder_input_ids": _texts(1, 1)}
    with torch.no_grad():
        assert len(fast(**given, output_hidden_states=True).decoder_hidden_states) == 3
        states = fast.get_encoder()(_texts()).last_hidden_state
        fast(encoder_outputs=(states,), decoder_inputs_embeds=torch.randn(1, 1, 32))
    assert set(_fallbacks()) == {
        "optimize: the argument output_hidden_states",
        "optimize: the argument decoder_inputs_embeds",
    }

"""Models of transformers that generate: `optimize` without example inputs. Random weights."""

from __future__ import annotations

import copy
import functools
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from benchmarks.models import _decoder_families
from benchmarks.models._decoder_families import VOCABULARY
from compile._compiled import needs_onednn
from cpuaccel.compile.capture.cached_attention import Site
from cpuaccel.compile.common.plain_calls import are_plain
from cpuaccel.compile.frontend import same_class
from cpuaccel.compile.frontend.generating_models import COMPARED, GenerationPlans
from cpuaccel.compile.frontend.optimized_module import Optimized
from cpuaccel.compile.validate import bounds, float64_reference

try:
    from transformers import LlamaForCausalLM  # imports what a broken installation lacks
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_onednn

FAMILIES = ("Qwen2", "Qwen3", "Mistral", "Gemma 3", "Phi", "GPT-2")


def _model(family: str = "Llama", layers: int = 2) -> Any:
    return _decoder_families.build(family, num_hidden_layers=layers)


def _prompt(batch: int = 1, tokens: int = 9) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, tokens))


def _tokens(model: Any, prompt: Tensor, count: int = 12, **options: Any) -> Tensor:
    torch.manual_seed(0)
    found: Tensor = model.generate(
        prompt, **{"max_new_tokens": count, "do_sample": False, **options}
    )
    return found


def _assert_same_tokens(model: Any, fast: Any, prompt: Tensor, **options: Any) -> None:
    assert torch.equal(_tokens(fast, prompt, **options), _tokens(model, prompt, **options))


def _fallbacks() -> dict[str, int]:
    counts = cpuaccel.stats()["fallbacks"]
    return {name: count for name, count in counts.items() if name.startswith("optimize: ")}


def _plans(fast: Any) -> GenerationPlans:
    found = same_class.plans_of(fast)
    assert isinstance(found, GenerationPlans)
    return found


def _runs_of_plans(fast: Any) -> list[str]:
    """Return what ran a capture last."""
    return [name for name, made in _plans(fast).captures().items() if made.last()[0] is not None]


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """A Llama and what `optimize` returned for it."""
    model = _model()
    fast = cpuaccel.optimize(model, time_budget=0)
    _tokens(fast, _prompt())  # captures
    return model, fast


@pytest.fixture(autouse=True)
def _counts() -> None:
    cpuaccel.reset_stats()


@pytest.mark.parametrize("family", FAMILIES)
def test_64_greedy_tokens_equal_the_models(family: str) -> None:
    model = _model(family)
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    _assert_same_tokens(model, fast, _prompt(), count=64)
    assert _runs_of_plans(fast) == ["prompts", "steps of 1"]
    assert not _fallbacks()


@pytest.mark.parametrize("tokens", [2, 9, 30])
def test_one_capture_runs_prompts_of_any_length(pair: tuple[Any, Any], tokens: int) -> None:
    model, fast = pair
    _assert_same_tokens(model, fast, _prompt(1, tokens), count=64)
    assert not _fallbacks()
    assert len(_plans(fast).captures()["prompts"].reports) <= 2  # of these sizes, and of all


@pytest.mark.parametrize("batch", [2, 4])
def test_prompts_of_different_lengths_in_a_batch(pair: tuple[Any, Any], batch: int) -> None:
    model, fast = pair
    prompt = _prompt(batch)
    mask = torch.ones_like(prompt)
    for row in range(batch):
        prompt[row, :row] = 0
        mask[row, :row] = 0
    for _ in range(2):
        _assert_same_tokens(model, fast, prompt, attention_mask=mask)
    assert f"steps of {batch}" in _runs_of_plans(fast)
    assert not _fallbacks()


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": True},
        {"num_beams": 3},
        {"cache_implementation": "static"},
        # transformers 4 raises an error without an end token.
        {"prompt_lookup_num_tokens": 2, "eos_token_id": 2},
    ],
    ids=["sampling", "beams", "static cache", "assisted"],
)
def test_ways_to_generate(pair: tuple[Any, Any], options: dict[str, Any]) -> None:
    model, fast = pair
    for _ in range(2):
        _assert_same_tokens(model, fast, _prompt(), **options)
    assert not _fallbacks()


def test_an_int8_cache(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    prompt = _prompt(1, 20)
    for _ in range(2):
        found, expected = (
            _tokens(each, prompt, 12, past_key_values=cpuaccel.quant.int8_cache(model.config))
            for each in (fast, model)
        )
        assert torch.equal(found, expected)
    assert not _fallbacks()


def test_a_call_returns_scores_and_the_cache(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    prompt = _prompt()
    with torch.no_grad():
        expected = model(prompt)
        for _ in range(2):
            found = fast(prompt)
            assert type(found) is type(expected)
            assert found.keys() == expected.keys()
            torch.testing.assert_close(found.logits, expected.logits)
        assert fast(prompt, use_cache=False).keys() == {"logits"}
        (name,) = found.keys() - {"logits"}
        assert found[name].get_seq_length() == prompt.shape[1]


def test_it_is_used_as_the_model(pair: tuple[Any, Any], tmp_path: Path) -> None:
    model, fast = pair
    assert isinstance(fast, type(model))
    assert fast.config is model.config
    assert (fast.device, fast.dtype) == (model.device, model.dtype)
    assert list(fast.state_dict()) == list(model.state_dict())
    fast.save_pretrained(tmp_path)
    loaded = LlamaForCausalLM.from_pretrained(tmp_path).eval()
    assert type(loaded) is type(model)
    _assert_same_tokens(model, loaded, _prompt())


def test_copies_are_optimized_too(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    copied = copy.deepcopy(fast)
    assert type(copied) is type(fast)
    assert copied.lm_head is not model.lm_head
    assert _plans(copied).model.lm_head is copied.lm_head


def test_pickled_models_are_optimized_too() -> None:
    fast = cpuaccel.optimize(_model(layers=1), time_budget=0)
    loaded = pickle.loads(pickle.dumps(fast))
    assert type(loaded) is type(fast)
    assert _plans(loaded).time_budget == 0


def test_what_no_capture_runs_is_counted(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    prompt = _prompt()
    embedded = model.get_input_embeddings()(prompt)
    with torch.no_grad():
        assert torch.equal(fast(inputs_embeds=embedded).logits, model(prompt).logits)
        assert len(fast(prompt, output_hidden_states=True).hidden_states) == 3
    assert fast(prompt, labels=prompt).loss.requires_grad
    with cpuaccel.enabled(False):
        _tokens(fast, prompt, count=2)
    assert set(_fallbacks()) == {
        "optimize: the argument inputs_embeds",
        "optimize: the argument output_hidden_states",
        "optimize: weights require gradients: call it under torch.no_grad()",
        "optimize: cpuaccel is off",
    }


def test_changes_of_the_model_are_noticed() -> None:
    model = _model(layers=1)
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    _assert_same_tokens(model, fast, _prompt(), count=1)
    with torch.no_grad():
        model.lm_head.weight.mul_(torch.randn(VOCABULARY, 1))
    _assert_same_tokens(model, fast, _prompt(), count=1)
    assert _runs_of_plans(fast) == ["prompts"]
    model.lm_head = nn.Linear(64, VOCABULARY, bias=False)
    _assert_same_tokens(model, fast, _prompt(), count=1)
    assert not _fallbacks()
    hook = model.model.layers[0].register_forward_hook(lambda *_: None)
    _assert_same_tokens(model, fast, _prompt(), count=1)
    assert _plans(fast).captures() == {}
    hook.remove()


def test_a_decoder_that_differs_from_the_model_does_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpuaccel.compile.capture import cached_attention

    attend = cached_attention.CachedCall.attend
    monkeypatch.setattr(cached_attention.CachedCall, "attend", lambda *given: attend(*given) + 1.0)
    model = _model(layers=1)
    fast = cpuaccel.optimize(model, time_budget=0)
    _assert_same_tokens(model, fast, _prompt())
    assert all("exceed the error bound" in reason for reason in _fallbacks())
    footer = cpuaccel.explain(fast).footer
    assert any("optimize: prompts of fewer than 16 tokens: the model" in line for line in footer)


def test_a_short_prompt_without_a_plan_leaves_longer_ones_theirs() -> None:
    model = _model(layers=1)
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Optimized, "capture_for", lambda *_, **__: None)
        _assert_same_tokens(model, fast, _prompt(1, 2), count=1)
    _assert_same_tokens(model, fast, _prompt(1, 20), count=1)
    assert _runs_of_plans(fast) == ["prompts"]
    _assert_same_tokens(model, fast, _prompt(1, 2), count=1)
    assert set(_fallbacks()) == {"optimize: no plan"}


@pytest.mark.parametrize("padding", [0, 40])
def test_the_end_of_a_long_prompt_is_compared(
    monkeypatch: pytest.MonkeyPatch, padding: int
) -> None:
    model = _model()
    lengths: list[int] = []
    forward = type(model).forward

    @functools.wraps(forward)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        lengths.append(kwargs["input_ids"].shape[1])
        return forward(self, *args, **kwargs)

    fast = cpuaccel.optimize(model, time_budget=0)
    prompt = _prompt(2, 150)
    mask = torch.ones_like(prompt)
    mask[0, :padding] = 0
    expected = _tokens(model, prompt, attention_mask=mask)
    monkeypatch.setattr(type(model), "forward", counted)
    for _ in range(2):
        assert torch.equal(_tokens(fast, prompt, attention_mask=mask), expected)
    assert _runs_of_plans(fast) == ["prompts", "steps of 2"]
    assert max(lengths) == COMPARED + 1  # and no model or decoder runs the prompt
    assert not _fallbacks()
    (report,) = _plans(fast).captures()["prompts"].reports
    assert any(report.regions)


def test_explain_shows_the_plans(pair: tuple[Any, Any]) -> None:
    explained = cpuaccel.explain(pair[1])
    assert any(row.op.startswith("MatMul") for row in explained.rows)
    assert any(line.startswith("optimize: steps of 1: ") for line in explained.footer)


def test_other_models_need_example_inputs() -> None:
    with pytest.raises(TypeError, match="example_inputs"):
        cpuaccel.optimize(nn.Linear(2, 2).eval())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_16_bits_are_compared_with_fp32_too(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(bounds, "HALF_SLACK", 1e-9)
    model = _model("Gemma 2").to(dtype)
    fast = cpuaccel.optimize(model, time_budget=0)
    _tokens(fast, _prompt(tokens=17))
    found = _plans(fast).differences
    assert found.keys() == {"prompts", "steps of 1"}
    for difference in found.values():
        assert difference.against == "the model in fp32"
        assert difference.is_within, difference


def test_the_reference_of_an_int8_model_leaves_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    torchao = pytest.importorskip("torchao.quantization")
    plain = []
    result = float64_reference.Reference.result

    def watched(reference: Any, *error: float) -> Any:
        plain.append(are_plain())  # else it writes to the call's cache
        return result(reference, *error)

    monkeypatch.setattr(float64_reference.Reference, "result", watched)
    monkeypatch.setattr(bounds, "INT8_BOUND", 1e-12)  # the reference decides
    monkeypatch.setattr(Site, "kernel", None)  # cpuaccel's attention rounds otherwise
    model = _model()
    config = torchao.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
    torchao.quantize_(model, config)
    fast = cpuaccel.optimize(model, time_budget=0)
    with torch.no_grad():
        fast(_prompt(tokens=17), use_cache=True)
    assert plain
    assert all(plain)

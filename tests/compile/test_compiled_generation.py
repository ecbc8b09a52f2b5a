"""`torch.compile(model, backend="cpuaccel")` and `generate`: a graph for prompts, one for steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import cpuaccel
from compile._compiled import needs_onednn
from cpuaccel.compile.frontend import compiled_generation

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_onednn

_CONFIG = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    pad_token_id=0,
    eos_token_id=None,
)


def _model() -> Any:
    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(_CONFIG)
    return model.eval()


def _compiled(way: str, model: Any) -> Any:
    if way == "torch.compile(model)":
        return torch.compile(model, backend="cpuaccel")
    if way == "model.forward":
        model.forward = torch.compile(model.forward, backend="cpuaccel")
    else:
        model.compile(backend="cpuaccel")
    return model


@pytest.mark.parametrize("way", ["torch.compile(model)", "model.forward", "model.compile()"])
def test_two_graphs_run_all_lengths(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_generation, "TIME_BUDGET", 0.0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    cpuaccel.reset_stats()
    model = _model()
    compiled = _compiled(way, _model())
    for tokens, cache in ((5, None), (9, None), (7, "static"), (11, "static")):
        prompt = torch.randint(3, 64, (1, tokens))
        options = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": cache}
        found = compiled.generate(prompt, **options)
        assert torch.equal(found, model.generate(prompt, **options))
    assert not torch._dynamo.utils.counters["stats"]
    assert not any(name.startswith("optimize") for name in cpuaccel.stats()["fallbacks"])


def test_what_no_capture_holds_runs_what_torch_compiled() -> None:
    calls: list[dict[str, Any]] = []

    class Compiled:
        def forward(self, *args: Any, **kwargs: Any) -> None:
            calls.append(kwargs)

    model = _model()
    compiled = compiled_generation.planned(model, Compiled(), {"backend": "cpuaccel"})
    prompt = torch.randint(3, 64, (1, 5))
    with torch.no_grad():
        compiled.forward(prompt, output_hidden_states=True)
        compiled.forward(prompt)
        model.train()
        compiled.forward(prompt)
    assert calls == [{"output_hidden_states": True}, {}]


@pytest.mark.parametrize("options", [{"mode": "max-autotune"}, {"options": {"trace": False}}])
def test_other_options_are_torchs(options: dict[str, Any]) -> None:
    assert compiled_generation.planned(_model(), None, options) is None

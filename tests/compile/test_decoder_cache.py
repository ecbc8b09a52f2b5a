"""The capture cache of decoders: a later process takes captures from disk. Random weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from _process import run_python
from _settings import setting
from torch import Tensor, nn

import cpuaccel
from benchmarks.models import _decoder_families
from benchmarks.models._decoder_families import VOCABULARY
from compile._compiled import needs_onednn
from cpuaccel.compile.capture import code_key, model_key, torch_export
from cpuaccel.compile.common import capture_files
from cpuaccel.compile.frontend import same_class

try:
    from transformers import LlamaForCausalLM  # noqa: F401  imports what an installation may lack
    from transformers.models.llama import modeling_llama
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_onednn

FAMILIES = ("Qwen2", "Qwen3", "Mistral", "Gemma 3", "Phi", "GPT-2")
FROM_DISK = "from the cache on disk"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the cache, which is on."""
    with setting("capture_cache", str(tmp_path)), setting("capture_cache_mib", 64):
        yield tmp_path


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What torch.export has traced."""
    found: list[Any] = []
    exported = torch_export.exported

    def counted(module: Any, *given: Any) -> Any:
        found.append(module)
        return exported(module, *given)

    monkeypatch.setattr(torch_export, "exported", counted)
    return found


def _model(family: str = "Llama", layers: int = 2) -> Any:
    torch.manual_seed(0)
    return _decoder_families.build(family, num_hidden_layers=layers)


def _optimized(model: Any) -> Any:
    return cpuaccel.optimize(model, time_budget=0)


def _prompt(batch: int = 1, tokens: int = 20) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(3, VOCABULARY, (batch, tokens))


def _tokens(model: Any, prompt: Tensor, **options: Any) -> Tensor:
    torch.manual_seed(0)
    found: Tensor = model.generate(prompt, max_new_tokens=8, do_sample=False, **options)
    return found


def _verdicts(fast: Any) -> list[str]:
    plans = same_class.plans_of(fast)
    assert plans is not None
    return [str(each.verdict) for each in plans.captures().values()]


@pytest.mark.parametrize("family", ["Llama", *FAMILIES])
def test_captures_come_from_disk(family: str, traces: list[Any], folder: Path) -> None:
    model = _model(family)
    _tokens(_optimized(model), _prompt())
    assert len(traces) == 2  # of prompts and of steps
    assert len(list(folder.iterdir())) == 2
    again = _optimized(_model(family))
    for tokens in (20, 33, 100):
        assert torch.equal(_tokens(again, _prompt(1, tokens)), _tokens(model, _prompt(1, tokens)))
    assert len(traces) == 2
    assert all(FROM_DISK in each for each in _verdicts(again))
    assert sum(FROM_DISK in line for line in cpuaccel.explain(again).footer) >= 2
    assert any(row.op.startswith("MatMul") for row in cpuaccel.explain(again).rows)


def test_the_model_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _tokens(_model(), _prompt())
    _tokens(_optimized(_model()), _prompt())
    fast = _optimized(_model())
    monkeypatch.setattr(nn.Linear, "forward", None)
    assert torch.equal(_tokens(fast, _prompt()), expected)


def test_torch_compile_takes_the_captures_of_optimize(traces: list[Any]) -> None:
    from cpuaccel.compile.frontend import compiled_generation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_generation, "TIME_BUDGET", 0.0)
        model = _model()
        _tokens(torch.compile(model, backend="cpuaccel"), _prompt())
        made = len(traces)
        compiled: Any = torch.compile(_model(), backend="cpuaccel")
        assert torch.equal(_tokens(compiled, _prompt()), _tokens(model, _prompt()))
    _tokens(_optimized(_model()), _prompt())
    assert len(traces) == made


_PROGRAM = f"""
import sys; sys.path.append({str(Path(__file__).parents[1])!r})
import _no_torchvision, torch, cpuaccel
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=96,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, eos_token_id=None)).eval()
fast = cpuaccel.optimize(model, time_budget=0)
prompt = torch.arange(40)[None]
fast.generate(prompt, max_new_tokens=3, do_sample=False)
print(sum("from the cache on disk" in line for line in cpuaccel.explain(fast).footer))
"""


def test_another_process_takes_them(folder: Path) -> None:
    environment = {"CPUACCEL_CAPTURE_CACHE": str(folder), "CPUACCEL_CAPTURE_CACHE_MIB": "8"}
    assert [run_python(_PROGRAM, **environment) for _ in range(2)] == ["0", "2"]
    assert run_python(_PROGRAM, **{**environment, "CPUACCEL_CAPTURE_CACHE_MIB": "0"}) == "0"


def test_other_kinds_of_calls_have_captures_of_their_own(traces: list[Any]) -> None:
    model = _model()
    _tokens(_optimized(model), _prompt())
    again = _optimized(model)
    assert torch.equal(_tokens(again, _prompt(3)), _tokens(model, _prompt(3)))
    assert len(traces) == 3  # steps of 3
    static = {"cache_implementation": "static"}
    assert torch.equal(_tokens(again, _prompt(), **static), _tokens(model, _prompt(), **static))


def _damage(path: Path) -> None:
    text = path.read_text()
    path.write_text(text[:-200] + "0" + text[-199:])


def _shorten(path: Path) -> None:
    path.write_text(path.read_text()[:1000])


def _empty(path: Path) -> None:
    path.write_text("")


def _of_another_version(path: Path) -> None:
    capture_files.save(path.stem, {"version": 9})


@pytest.mark.parametrize("change", [_damage, _shorten, _empty, _of_another_version])
def test_files_that_cannot_be_read_are_made_anew(
    change: Callable[[Path], None],
    traces: list[Any],
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "cpuaccel")
    model = _model()
    _tokens(_optimized(model), _prompt())
    for path in folder.iterdir():
        change(path)
    caplog.clear()
    for made in (4, 4):
        assert torch.equal(_tokens(_optimized(_model()), _prompt()), _tokens(model, _prompt()))
        assert len(traces) == made
    said = [each.getMessage() for each in caplog.records if "capture cache" in each.getMessage()]
    assert sum("is not read" in each or "is made anew" in each for each in said) == 2


def test_the_folder_is_bounded(folder: Path) -> None:
    with setting("capture_cache_mib", 1):
        for number in range(5):
            capture_files.save(f"key{number}", "x" * 300_000)
    assert capture_files.load("key0") is None
    assert capture_files.load("key4") is not None
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1 << 20


def test_nothing_is_written_if_it_is_off(folder: Path) -> None:
    with setting("capture_cache_mib", 0):
        _tokens(_optimized(_model(layers=1)), _prompt())
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with setting("capture_cache", str(file)):
        model = _model(layers=1)
        assert torch.equal(_tokens(_optimized(model), _prompt()), _tokens(model, _prompt()))


# The key


def _key(model: Any) -> str:
    return model_key.key_of(model)


def _one_number(model: Any) -> None:
    with torch.no_grad():
        model.model.norm.weight[3] += 1e-6


def _a_matrix(model: Any) -> None:
    with torch.no_grad():
        model.lm_head.weight.mul_(1.001)


def _strides(model: Any) -> None:
    weight = model.lm_head.weight
    model.lm_head.weight = nn.Parameter(weight.detach().t().contiguous().t())


def _a_layer(model: Any) -> None:
    model.model.layers[1].mlp.act_fn = nn.GELU()


def _attention(model: Any) -> None:
    model.config._attn_implementation = "eager"


def _scaling(model: Any) -> None:
    model.model.layers[0].self_attn.scaling *= 2


def _a_buffer(model: Any) -> None:
    model.model.rotary_emb.inv_freq *= 2


def _half(model: Any) -> None:
    model.to(torch.bfloat16)


@pytest.mark.parametrize(
    "change",
    [_one_number, _a_matrix, _strides, _a_layer, _attention, _scaling, _a_buffer, _half],
)
def test_a_model_that_differs_has_another_key(change: Callable[[Any], None]) -> None:
    model = _model()
    key = _key(model)
    assert _key(_model()) == _key(copy.deepcopy(model)) == key
    change(model)
    assert _key(model) != key


def test_other_surroundings_have_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model()
    found = {_key(model)}
    with setting("deterministic", not cpuaccel.config.get("deterministic")):
        found.add(_key(model))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        found.add(_key(model))
    finally:
        torch.set_num_threads(threads)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "9.9")
        found.add(_key(model))
    with monkeypatch.context() as patch:
        patch.setattr(model_key, "_stamps", lambda *_: "other files")
        found.add(_key(model))
    assert len(found) == 5
    assert _key(model) in found


def test_code_that_was_replaced_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model()
    found = {_key(model)}
    with monkeypatch.context() as patch:
        patch.setattr(modeling_llama.LlamaMLP, "forward", lambda self, x: x)
        found.add(_key(model))
    with monkeypatch.context() as patch:
        patch.setattr(modeling_llama, "rotate_half", lambda x: x)
        found.add(_key(model))
    assert len(found) == 3


def test_functions_are_told_apart_by_what_they_do() -> None:
    def adding(number: int) -> Any:
        return lambda x, y=number: x + number

    one, same, two = adding(1), adding(1), adding(2)
    assert code_key.of_function(one) == code_key.of_function(same)
    assert code_key.of_function(one) != code_key.of_function(two)


class _Own(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def _own_class(model: Any) -> None:
    model.model.layers[0].mlp.act_fn = _Own()


def _own_forward(model: Any) -> None:
    model.model.forward = model.model.forward


def _own_object(model: Any) -> None:
    model.helper = object()


@pytest.mark.parametrize("change", [_own_class, _own_forward, _own_object])
def test_what_cannot_be_described_is_not_kept(change: Callable[[Any], None], folder: Path) -> None:
    model = _model()
    change(model)
    with pytest.raises(model_key.NoKey):
        _key(model)
    _tokens(_optimized(model), _prompt())
    assert not list(folder.iterdir())

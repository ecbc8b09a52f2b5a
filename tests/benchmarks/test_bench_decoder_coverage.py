"""The table of decoders with plans, of one family, and its more exact references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.models import _decoder_families, _decoders, _exact_decoder, decoder_coverage

if _reason := _decoders.missing():
    pytest.skip(_reason, allow_module_level=True)


def _options(folder: Path) -> list[str]:
    return [
        *("--families", "Llama", "--ways", "eager,optimize", "--tokens", "4"),
        *("--results", str(folder / "results.jsonl"), "--markdown", str(folder / "table.md")),
    ]


def test_one_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = _options(tmp_path)
    decoder_coverage.main([*options, "--formats", "fp32"])
    (line,) = (tmp_path / "results.jsonl").read_text().splitlines()
    ways = json.loads(line)["ways"]
    assert ways["optimize"]["plans"] == "prompts, steps of 1"
    for each in ways.values():
        assert not each["reasons"]
        assert each["tokens"] == 4
        assert each["scores"] < 1e-5
        assert each["error"] <= each["allowed"]
    assert "Llama" in capsys.readouterr().out
    decoder_coverage.main([*options, "--formats", "fp32,bf16", "--resume"])
    _, second = (tmp_path / "results.jsonl").read_text().splitlines()
    assert json.loads(second)["case"]["format"] == "bf16"
    row = (tmp_path / "table.md").read_text().splitlines()[2]
    assert row.startswith("| Llama | prompts, steps of 1 | 4 4 | 0.")


def test_what_a_cell_says() -> None:
    case = decoder_coverage.Case("Llama", "bf16", 4)
    outcome = {
        **{"plans": "none", "reasons": {"no plan": 2}, "tokens": 3, "scores": 0.1},
        **{"error": 0.3, "allowed": 0.2, "against": "the model", "seconds": 1.0},
    }
    beyond = {"ways": {"optimize": outcome}}
    assert decoder_coverage._cell(case, beyond) == "1.50 (beyond)"
    assert decoder_coverage._notes({case: beyond}) == [
        "Llama, bf16, optimize: 2 calls by the model: no plan"
    ]
    assert decoder_coverage._cell(case, {"torch": "no kernel"}) == "torch raises"
    assert decoder_coverage._cell(case, {"ways": {"eager": {"raises": "x"}}}) == "raises"


@pytest.mark.parametrize("number_format", _decoders.FORMATS)
def test_the_reference_computes_what_the_model_means(number_format: str) -> None:
    if "w" in number_format:
        pytest.importorskip("torchao", reason="torchao is not installed")
    model = _decoders.in_format(
        _decoder_families.build("Llama", num_hidden_layers=1), number_format
    )
    wide = _exact_decoder.exact(model, number_format)
    prompt = _decoder_families.prompt(model, 5)["input_ids"]
    with torch.no_grad():
        expected, found = model(prompt).logits.float(), wide(prompt).logits.float()
    bound = {"fp32": 1e-5, "a16w8": 1e-5, "a16w4": 1e-5}.get(number_format, 0.03)
    torch.testing.assert_close(found, expected, rtol=0, atol=bound * float(expected.abs().max()))


def test_a_reference_with_errors_is_near_the_exact_one() -> None:
    model = _decoder_families.build("Llama", num_hidden_layers=1)
    prompt = _decoder_families.prompt(model, 5)["input_ids"]
    with torch.no_grad():
        exact, rounded, again = (
            _exact_decoder.exact(model, "fp32", error)(prompt).logits for error in (0, 1e-6, 1e-6)
        )
    assert torch.equal(rounded, again)
    assert 0 < float((rounded - exact).abs().max()) < 1e-4

"""`cpuaccel/_transformers_names.py` alone has names of transformers, and each is in this one."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

import pytest
import torch
from _repository import ROOT

import cpuaccel
from cpuaccel import _transformers_names as names

_PACKAGE = ROOT / "cpuaccel"
_TABLE = _PACKAGE / "_transformers_names.py"


def _used(source: str) -> Iterator[tuple[int, str]]:
    """Each import or path of transformers in a source, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            paths = [node.module or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            paths = [node.value] if " " not in node.value else []
        else:
            continue
        for path in paths:
            if path.split(".")[0].split(":")[0] == "transformers":
                yield node.lineno, path


def test_one_module_names_transformers() -> None:
    found = [
        f"{path.relative_to(ROOT)}, line {line}: {name}"
        for path in sorted(_PACKAGE.rglob("*.py"))
        if path != _TABLE
        for line, name in _used(path.read_text())
    ]
    assert not found


def test_names_are_found() -> None:
    source = 'import transformers\nfrom transformers.cache_utils import Cache\nx["transformers"]'
    assert [line for line, _ in _used(source)] == [1, 2, 3]
    assert len(list(_used(_TABLE.read_text()))) > 5


def _needs_transformers() -> None:
    try:
        transformers = importlib.import_module("transformers")
        assert transformers.LlamaForCausalLM  # imports what may be lacking
    except Exception as error:  # a torchvision of another torch raises anything
        pytest.skip(f"transformers cannot be imported: {error}")


@pytest.mark.parametrize("name", names._NAMES)
def test_transformers_has_each_name(name: str) -> None:
    _needs_transformers()
    if names.major_version() < int(names._NAMES[name].since.partition(".")[0]):
        assert names.lacking([name])
    else:
        assert names.get(name) is getattr(names, name)


@pytest.mark.parametrize("name", names.DECODERS)
def test_without_a_name_the_model_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.models import _decoder_families

    _needs_transformers()
    model = _decoder_families.build("Llama", num_hidden_layers=1)
    prompt = torch.randint(3, 128, (1, 5))
    options = {"max_new_tokens": 3, "do_sample": False}
    expected = model.generate(prompt, **options)
    row = names._NAMES[name]
    monkeypatch.setitem(names._NAMES, name, row._replace(path=f"{row.path}OfAnotherVersion"))
    cpuaccel.reset_stats()
    fast = cpuaccel.optimize(model, time_budget=0)
    assert torch.equal(fast.generate(prompt, **options), expected)
    reasons = cpuaccel.stats()["fallbacks"]
    (reason,) = (each for each in reasons if each.startswith("optimize"))
    assert "has no transformers" in reason
    assert "OfAnotherVersion (transformers 4.57 and later has it)" in reason


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        names.Unknown  # noqa: B018

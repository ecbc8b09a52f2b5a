"""torch's private Python names: `cpuaccel/_compat.py` alone has them, and each is in this torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from _process import run_python
from _repository import ROOT

from cpuaccel import _compat

_PACKAGE = ROOT / "cpuaccel"
_COMPAT = _PACKAGE / "_compat.py"
_READS_NAMES = _PACKAGE / "quant" / "_legacy"
"""It compares names that files have with strings, and looks up none of them in torch."""

_DOTTED = re.compile(r"torch(\.\w+)+")


def _is_private(path: str) -> bool:
    return any(re.match(r"_(?!_)", part) for part in path.split("."))


def _chain(node: ast.expr) -> str:
    """The dotted path of an attribute of a name, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def private_names(source: str, *, strings: bool = True) -> Iterator[tuple[int, str]]:
    """Each private name of torch in a source, with its line.

    They are imported, reached through a module or an alias of one, or spelled in a string.
    """
    tree = ast.parse(source)
    modules = {"torch": "torch"}  # what a name in the source stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    modules[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    if _is_private(alias.name):
                        yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                modules[alias.asname or alias.name] = path
                if _is_private(path):
                    yield node.lineno, path
    for node in ast.walk(tree):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in modules:
            modules[target.id] = modules[value.id]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = _chain(node).partition(".")
            if root in modules and _is_private(rest) and not _is_private(modules[root]):
                yield node.lineno, f"{modules[root]}.{rest}"
        elif strings and isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if _DOTTED.fullmatch(text) and _is_private(text):
                yield node.lineno, text


@pytest.mark.parametrize(
    "line",
    [
        "import torch._inductor.config",
        "from torch._guards import tracing",
        "from torch.utils import _pytree as pytree",
        "import torch\ntorch._C._len_torch_dispatch_stack()",
        "import torch as t\nt.utils._pytree.tree_leaves",
        "from typing import Any\nimport torch\nc: Any = torch\nc._C.x",
        "from torch.autograd import forward_ad\nforward_ad._current_level",
        'import sys\nsys.modules.get("torch._dynamo")',
    ],
)
def test_private_names_are_found(line: str) -> None:
    assert list(private_names(line))


def test_public_names_are_not() -> None:
    source = 'import torch\nfrom torch import nn\ntorch.__version__\nnn.Module\n"torch.nn._x y"'
    assert not list(private_names(source))


def test_only_one_module_has_private_names() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(_PACKAGE.rglob("*.py"))
        if path != _COMPAT
        for line, name in sorted(
            set(private_names(path.read_text(), strings=path.parent != _READS_NAMES))
        )
    ]
    assert not found, "import them from cpuaccel._compat:\n" + "\n".join(found)


@pytest.mark.parametrize("name", _compat._NAMES)
def test_this_torch_has_each_name(name: str) -> None:
    assert getattr(_compat, name) is not None


def test_a_missing_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    row = _compat._Name("torch._ops:OpBelow.gone", (2, 13), (2, 15))
    monkeypatch.setitem(_compat._NAMES, "gone", row)
    with pytest.raises(ImportError, match=r"no torch\._ops\.OpBelow\.gone.*2\.13 to before 2\.15"):
        _ = _compat.gone
    with pytest.raises(AttributeError, match="unknown"):
        _ = _compat.unknown


_LARGE = """
import sys, torch
large = ("torch._inductor", "torch._dynamo", "torch._functorch.pyfunctorch", "torch.export")
print(*(module for module in large if module in sys.modules))
"""


def test_large_modules_are_not_imported_early() -> None:
    plain = run_python(_LARGE, CPUACCEL="0")
    assert run_python(_LARGE, CPUACCEL="1") == plain
    code = "from cpuaccel import _compat; _compat.OpOverload\n" + _LARGE
    assert run_python(code, CPUACCEL="1") == plain

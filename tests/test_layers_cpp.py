"""The layers of csrc: a folder includes headers of itself and of folders below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).parent.parent / "csrc"

LAYERS = (
    "base",
    "kernels",
    "memory",
    "dnnl",
    "plan",
    "quant",
    "ops",
    "fbgemm",
    "torch_ao",
    "bind",
)
"""The folders of csrc from the lowest to the highest, as docs/architecture.md draws them."""

BESIDE = (
    ("kernels", "memory"),
    ("kernels", "dnnl"),
    ("memory", "dnnl"),
    ("memory", "quant"),
    ("fbgemm", "torch_ao"),
)
"""Folders of one layer: neither includes the other."""

CORE = LAYERS[: LAYERS.index("ops")]
"""The folders of libcpuaccel_core.so, which serves every torch and includes none."""

_INCLUDE = re.compile(r'^\s*#\s*include\s+"(\w+)/([^"]+)"', re.MULTILINE)
_SOURCES = {".h", ".cpp", ".inc"}

_OF_TORCH = re.compile(
    r"^\s*#\s*include\s+<((?:ATen|c10|torch|caffe2|fbgemm)/[^>]+)>", re.MULTILINE
)


def _includes(folder: str) -> list[tuple[str, str]]:
    """Return (the include in words, the folder of the header) for each include in `folder`."""
    return [
        (f"{path.relative_to(CSRC)} includes {target}/{header}", target)
        for path in sorted((CSRC / folder).rglob("*"))
        if path.suffix in _SOURCES
        for target, header in _INCLUDE.findall(path.read_text())
        if (CSRC / target / header).exists()
    ]


def test_every_folder_has_a_layer() -> None:
    assert sorted(each.name for each in CSRC.iterdir() if each.is_dir()) == sorted(LAYERS)


@pytest.mark.parametrize("folder", LAYERS)
def test_a_folder_includes_only_folders_below_it(folder: str) -> None:
    includes = _includes(folder)
    assert includes
    beside = {each for pair in BESIDE if folder in pair for each in pair} - {folder}
    allowed = set(LAYERS[: LAYERS.index(folder) + 1]) - beside
    assert [line for line, target in includes if target not in allowed] == []


def _headers_of_torch(folder: str) -> list[str]:
    return [
        f"{path.relative_to(CSRC)} includes {header}"
        for path in sorted((CSRC / folder).rglob("*"))
        if path.suffix in _SOURCES
        for header in _OF_TORCH.findall(path.read_text())
    ]


@pytest.mark.parametrize("folder", CORE)
def test_the_core_includes_no_header_of_torch(folder: str) -> None:
    assert _headers_of_torch(folder) == []


def test_headers_of_torch_are_found() -> None:
    assert "torch_ao/engine.h includes ATen/Context.h" in _headers_of_torch("torch_ao")

"""torch's C++ headers that are not public: only the compatibility headers of csrc include them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from _repository import ROOT

_CSRC = ROOT / "csrc"

COMPAT = (
    *sorted((_CSRC / "ops" / "torch_compat").glob("*.h")),
    *(_CSRC / "torch_ao" / name for name in ("torch_compat.h", "torch_compat_fbgemm.h")),
    _CSRC / "bind" / "torch_compat.h",
)

PUBLIC = frozenset(
    {
        *("torch/custom_class.h", "torch/headeronly/version.h", "torch/library.h"),
        "torch/csrc/autograd/custom_function.h",
        *("ATen/Context.h", "ATen/Dispatch.h", "ATen/Functions.h", "ATen/Parallel.h"),
        *("ATen/TensorOperators.h", "ATen/Version.h", "ATen/autocast_mode.h"),
        "ATen/record_function.h",
        *("ATen/core/DimVector.h", "ATen/core/LegacyTypeDispatch.h", "ATen/core/List.h"),
        *("ATen/core/Tensor.h", "ATen/core/dispatch/Dispatcher.h", "ATen/core/grad_mode.h"),
        "ATen/core/stack.h",
        *("c10/core/Allocator.h", "c10/core/CPUAllocator.h", "c10/core/DispatchKeySet.h"),
        *("c10/core/GradMode.h", "c10/core/InferenceMode.h", "c10/core/Scalar.h"),
        *("c10/core/ScalarType.h", "c10/util/Exception.h", "c10/util/SmallVector.h"),
        "c10/util/string_view.h",
        # at::detail::empty_cpu is private, but in every version, and in the precompiled header.
        "ATen/EmptyTensor.h",
    }
)
"""Headers that torch's C++ documentation and tutorials use, or that declare what they do."""

_OP = re.compile(r"ATen/ops/\w+(?<!_native)(?<!_ops)(?<!_dispatch)\.h")
"""The function of an op, as in ATen/ops/linear.h."""

_INCLUDE = re.compile(r"^\s*#\s*include\s+<((?:ATen|c10|torch)/[^>]+)>(.*)$", re.MULTILINE)
_VERSIONS = re.compile(r"\s*// (\d+)\.(\d+) to (\d+)\.(\d+)")


def is_public(header: str) -> bool:
    """Whether torch means a header for others."""
    return header in PUBLIC or _OP.fullmatch(header) is not None


def _includes(path: Path) -> Iterator[tuple[str, str]]:
    for found in _INCLUDE.finditer(path.read_text()):
        yield found[1], found[2]


def _private() -> list[tuple[str, str]]:
    return [(h, rest) for path in COMPAT for h, rest in _includes(path) if not is_public(h)]


@pytest.mark.parametrize(
    "header",
    [
        "ATen/native/Resize.h",
        "ATen/ops/mm_cpu_dispatch.h",
        "ATen/ops/mean_native.h",
        "ATen/ops/add_ops.h",
        "c10/core/impl/LocalDispatchKeySet.h",
        "torch/csrc/autograd/python_variable.h",
    ],
)
def test_private_headers_are_found(header: str) -> None:
    assert not is_public(header)
    assert is_public("ATen/ops/linear.h")


def test_only_compatibility_headers_include_private_ones() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {header}"
        for path in sorted(_CSRC.rglob("*"))
        if path.suffix in (".h", ".cpp", ".inc") and path not in COMPAT
        for header, _ in _includes(path)
        if not is_public(header)
    ]
    assert not found, "include them from csrc/ops/torch_compat:\n" + "\n".join(found)


def test_each_has_the_versions_it_is_for() -> None:
    assert not [header for header, rest in _private() if not _VERSIONS.fullmatch(rest)]


def test_each_is_in_one_compatibility_header() -> None:
    headers = [header for header, _ in _private()]
    assert headers
    assert len(headers) == len(set(headers))


def test_this_torch_has_each_header_that_is_for_it() -> None:
    here = tuple(map(int, torch.__version__.split(".")[:2]))
    include = Path(torch.__file__).parent / "include"
    for header, rest in _private():
        first, last = _VERSIONS.fullmatch(rest).group(1, 2), _VERSIONS.fullmatch(rest).group(3, 4)  # type: ignore[union-attr]
        if tuple(map(int, first)) <= here <= tuple(map(int, last)):
            assert (include / header).exists(), header

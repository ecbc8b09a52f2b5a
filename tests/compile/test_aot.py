"""cpuaccel.aot_compile: AOTInductor packages that contain cpuaccel's ops."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from _process import run_python
from torch import Tensor, nn

import cpuaccel
from compile import _int8_models
from compile._compiled import Lambda, needs_onednn, randomized
from cpuaccel.__main__ import main
from cpuaccel._cli.plan.drawing import drawing_of
from cpuaccel._cli.plan.timing import measure
from cpuaccel.compile.package import archive

pytestmark = [
    needs_onednn,
    pytest.mark.skipif(
        not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))),
        reason="AOTInductor needs a C++ compiler: neither CXX (g++) nor clang++ is in PATH",
    ),
]

_FACTS = "extra/cpuaccel.json"


def _net() -> nn.Module:
    """A convolution for oneDNN, a sum for Inductor, and linear layers of one row."""
    torch.manual_seed(0)
    return randomized(
        Lambda(
            lambda self, x: {
                "scores": self.last(
                    F.gelu(self.first(F.relu(self.norm(self.conv(x))).sum((2, 3)).cumsum(1)))
                )
            },
            conv=nn.Conv2d(3, 16, 3, padding=1),
            norm=nn.BatchNorm2d(16),
            first=nn.Linear(16, 64),
            last=nn.Linear(64, 32, bias=False),
        )
    ).eval()


def _x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(1, 3, 8, 8)


@pytest.fixture
def products_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost table takes no products, as the measured one takes none of few rows."""
    from cpuaccel.compile.partition import cost_table

    rows = cost_table._rows()
    kept = tuple(row for row in rows if row.family != "product")
    monkeypatch.setattr(cost_table, "_rows", lambda: kept)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("aot")


@pytest.fixture
def package(folder: Path, products_are_left: None) -> Path:
    """A package that is compiled once; each test gets a copy."""
    made = folder / "made.pt2"
    if not made.exists():
        cpuaccel.aot_compile(_net(), (_x(),), made)
    return Path(shutil.copy(made, folder / "net.pt2"))


def test_the_verified_file_is_the_one_that_runs(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = archive.verified

    def checked(*arguments: Any) -> Any:
        found = check(*arguments)
        other = package.with_suffix(".new")
        other.write_bytes(b"another file")
        other.replace(package)
        return found

    monkeypatch.setattr(archive, "verified", checked)
    loaded = cpuaccel.load(package)
    with torch.no_grad():
        expected = _net()(_x())["scores"]
        torch.testing.assert_close(loaded(_x())["scores"], expected, atol=1e-4, rtol=1e-4)


def test_a_package_runs_and_our_ops_in_it(package: Path) -> None:
    loaded = cpuaccel.load(package)
    cpuaccel.reset_stats()
    found = [loaded(_x())["scores"] for _ in range(2)]
    calls = cpuaccel.stats()["calls"]
    assert (calls["graph_region.cpuaccel"], calls["packed_linear.cpuaccel"]) == (2, 4)
    assert not cpuaccel.stats()["fallbacks"]
    with torch.no_grad():
        expected = _net()(_x())["scores"]
    for each in found:
        torch.testing.assert_close(each, expected, atol=1e-4, rtol=1e-4)
    rows = cpuaccel.explain(loaded).rows
    assert {"KeptLinear+gelu", "KeptLinear"} <= {row.op for row in rows}
    assert any(row.op.startswith("Convolution") and row.provider == "onednn" for row in rows)


def test_packed_weights_are_in_it_once(package: Path) -> None:
    with zipfile.ZipFile(package) as parts:
        whole = b"".join(parts.read(name) for name in parts.namelist() if "json" not in name)
    plain = _net().last.weight.detach().numpy().tobytes()  # type: ignore[union-attr,operator]
    assert whole.count(b"cpuaccW\n") >= 2
    assert plain not in whole


def test_of_another_cpus_panels(package: Path, tmp_path: Path) -> None:
    """The same package with an older ISA in use."""
    expected = _net()(_x())["scores"]
    code = f"""
import torch, cpuaccel
loaded = cpuaccel.load({str(package)!r})
torch.manual_seed(1)
print(loaded(torch.randn(1, 3, 8, 8))["scores"].flatten().tolist())
print([name for name in cpuaccel.stats()["fallbacks"] if "packed again" in name])
"""
    said = run_python(code, cwd=tmp_path, CPUACCEL_MAX_ISA="avx2")
    numbers, repacked = said.splitlines()[-2:]
    found = torch.tensor(json.loads(numbers)).view(expected.shape)
    torch.testing.assert_close(found, expected.detach(), atol=1e-4, rtol=1e-4)
    here_is_more = cpuaccel._C.gemm_panel() != 16
    assert ("packed again" in repacked) == here_is_more


def test_int8(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(8, 4),
    )
    x = torch.randn(2, 8, 9, 9)
    with torch.no_grad():
        model = _int8_models.static(randomized(net).eval(), x)
        cpuaccel.aot_compile(model, (x,), folder / "int8.pt2")
        loaded = cpuaccel.load(folder / "int8.pt2")
        torch.testing.assert_close(loaded(x), model(x))
    assert any("q_conv" in kinds for kinds in loaded.reports[0].kinds())


def test_threads_may_share_it(package: Path) -> None:
    loaded = cpuaccel.load(package)
    inputs = [_x() * scale for scale in range(8)]
    expected = [loaded(x)["scores"] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for a, b in zip(pool.map(loaded, inputs), expected, strict=True):
            assert torch.equal(a["scores"], b)


def test_inputs_are_checked(package: Path) -> None:
    loaded = cpuaccel.load(package)
    with pytest.raises(ValueError, match=r"expected float32 \[1, 3, 8, 8\], got float32 \[2, 3"):
        loaded(_x().repeat(2, 1, 1, 1))
    last = loaded(_x().to(memory_format=torch.channels_last))["scores"]
    assert torch.equal(last, loaded(_x())["scores"])


def test_a_damaged_package_is_not_loaded(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: Any) -> None:
        raise AssertionError("its code was loaded")

    monkeypatch.setattr(torch._inductor, "aoti_load_package", load)
    whole = package.read_bytes()
    changed = bytearray(whole)
    changed[whole.index(b"\x7fELF") + 5000] ^= 1
    package.write_bytes(changed)
    with pytest.raises(ValueError, match=r"net\.pt2: damaged"):
        cpuaccel.load(package)
    package.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"net\.pt2: damaged or truncated"):
        cpuaccel.load(package)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"machine": "riscv64"}, "compiled for riscv64 with .*compile it here"),
        (
            {"features": ["avx2", "avx1024"]},
            "compiled for .* this CPU is .* without avx1024: compile",
        ),
    ],
)
def test_compiled_for_another_cpu(package: Path, changed: dict[str, Any], message: str) -> None:
    _with_facts(package, lambda facts: facts["cpu"].update(changed))
    with pytest.raises(ValueError, match=rf"net\.pt2: {message}"):
        cpuaccel.load(package)


def test_compiled_for_another_torch(package: Path) -> None:
    _with_facts(package, lambda facts: facts.update(torch="9.9.1"))
    with pytest.raises(ValueError, match=r"compiled for torch 9\.9\.1, this is torch 2\."):
        cpuaccel.load(package)


def test_bad_arguments(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module, got int"):
        cpuaccel.aot_compile(3, (_x(),), path)
    with pytest.raises(TypeError, match="example_inputs: expected a tuple"):
        cpuaccel.aot_compile(_net(), _x(), path)
    with pytest.raises(ValueError, match="in eval mode"):
        cpuaccel.aot_compile(_net().train(), (_x(),), path)
    with pytest.raises(ValueError, match=r"expected a path that ends in \.pt2"):
        cpuaccel.aot_compile(_net(), (_x(),), tmp_path / "net.so")
    with cpuaccel.enabled(False), pytest.raises(RuntimeError, match="cpuaccel is off"):
        cpuaccel.aot_compile(_net(), (_x(),), path)


def _with_facts(path: Path, change: Any) -> None:
    with zipfile.ZipFile(path) as parts:
        name = next(each for each in parts.namelist() if each.endswith(_FACTS))
        contents = {each: parts.read(each) for each in parts.namelist() if each != name}
        facts = json.loads(parts.read(name))
    for made in ("format", "digest", "digests"):
        facts.pop(made)
    change(facts)
    with zipfile.ZipFile(path, "w") as parts:
        for each, content in contents.items():
            parts.writestr(each, content)
    archive.seal(path, facts)


def test_the_plan_of_a_package(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its steps are timed; code that Inductor compiled around them is not."""
    capsys.readouterr()
    assert main(["plan", str(package), "--no-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("net.pt2: a file of cpuaccel.aot_compile\ncall: (float32 [")
    assert "KeptLinear+gelu" in said
    loaded = cpuaccel.load(package)
    measured = measure(loaded)
    assert [plan.runs > 0 for plan in measured.plans] == [True]
    assert measured.ops == ()
    boxes = {node.title: node for node in drawing_of(loaded.facts["outline"], measured).boxes()}
    convolutions = [box for title, box in boxes.items() if "Convolution" in title]
    assert all((box.share or 0) > 0 for box in convolutions)
    assert convolutions
    assert boxes["cpuaccel.saved_linear"].share is None

"""What builds the wheel: which torches it asks for, and which wheels are not published."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]


def _loaded(path: str) -> ModuleType:
    """The module at `path`, which is in no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build_wheel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return _loaded("tools/build_wheel.py")


@pytest.mark.parametrize(
    ("built", "others"),
    [
        (["2.13.0+cpu"], ["2.12.1", "2.14.0"]),
        (["2.13.0", "2.14.1", "2.15.0"], ["2.12.1", "2.16.0", "3.0.0"]),
        (["2.13.0", "2.15.0"], ["2.12.0", "2.14.1", "2.16.0"]),
    ],
)
def test_the_wheel_asks_for_the_torches_that_it_has_shims_for(
    built: list[str], others: list[str]
) -> None:
    torch_pin = _loaded("cmake/torch_pin.py")
    name, _, versions = torch_pin.torch_requirement(built).partition("torch")
    wanted = SpecifierSet(versions)
    assert name == ""
    for version in built:
        patch = version.split("+")[0].rpartition(".")[0] + ".9"
        assert version in wanted
        assert patch in wanted
    assert [version for version in others if version in wanted] == []


def test_a_wheel_for_two_major_versions_is_rejected() -> None:
    torch_pin = _loaded("cmake/torch_pin.py")
    with pytest.raises(RuntimeError, match="one major version of torch"):
        torch_pin.torch_requirement(["2.15.0", "3.0.0"])


def test_the_version_of_a_torch_is_read_from_its_headers(tmp_path: Path) -> None:
    header = tmp_path / "include" / "torch" / "headeronly" / "version.h"
    header.parent.mkdir(parents=True)
    parts = {"MAJOR": 2, "MINOR": 14, "PATCH": 1, "ABI_TAG": 0}
    header.write_text("".join(f"#define TORCH_VERSION_{k} {v}\n" for k, v in parts.items()))
    assert _loaded("cmake/torch_pin.py").version_of(tmp_path) == "2.14.1"


def _wheel(folder: Path, build_wheel: ModuleType, tag: str = "manylinux_2_34_x86_64") -> Path:
    path = folder / f"cpuaccel-0.1.0-cp311-cp311-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in build_wheel.LICENSES:
            archive.writestr(f"cpuaccel-0.1.0.dist-info/licenses/{name}", "text")
        archive.writestr("cpuaccel/torch_2_13/_C.cpython-311-x86_64-linux-gnu.so", b"\x7fELF")
    return path


def test_a_good_wheel_has_no_fault(tmp_path: Path, build_wheel: ModuleType) -> None:
    assert build_wheel.faults(_wheel(tmp_path, build_wheel), ["2.13.0"]) == []


def test_the_faults_of_a_wheel_are_found(tmp_path: Path, build_wheel: ModuleType) -> None:
    path = _wheel(tmp_path, build_wheel, tag="linux_x86_64")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("cpuaccel/lib/libcpuaccel_core.so", b"at " + bytes(ROOT) + b"/csrc/x.cpp")
    build_wheel.MAX_MEGABYTES = 0
    found = "\n".join(build_wheel.faults(path, ["2.13.0", "2.14.1"]))
    for expected in (
        "MB; the most is 0",
        "no manylinux tag",
        "cpuaccel/torch_2_14/_C is missing",
        f"cpuaccel/lib/libcpuaccel_core.so contains {ROOT}",
    ):
        assert expected in found


def test_a_missing_license_is_found(tmp_path: Path, build_wheel: ModuleType) -> None:
    path = tmp_path / "cpuaccel-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cpuaccel/torch_2_13/_C.cpython-311-x86_64-linux-gnu.so", b"")
    found = build_wheel.faults(path, ["2.13.0"])
    assert found == [f"licenses/{name} is missing" for name in build_wheel.LICENSES]


def test_a_torch_that_is_no_release_is_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    with pytest.raises(SystemExit, match=r"expected MAJOR\.MINOR\.PATCH, not '\.\./x'"):
        _loaded("tools/unpack_torch.py").unpacked("../x")

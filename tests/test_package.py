"""The installed package: its files, its licenses, its requirements, and older CPUs."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from quant._engine import needs_front_end

import cpuaccel

ROOT = pathlib.Path(__file__).resolve().parents[1]

LINEAR = """
import torch, cpuaccel
torch.set_num_threads(1)
torch.backends.quantized.engine = "x86"
w = torch.quantize_per_tensor(torch.ones(8, 8, 3, 3), 0.1, 0, torch.qint8)
p = torch.ops.quantized.conv2d_prepack(w, None, [1, 1], [1, 1], [1, 1], 1)
x = torch.quantize_per_tensor(torch.ones(1, 8, 6, 6), 0.1, 0, torch.quint8)
y = torch.ops.quantized.conv2d(x, p, 0.5, 0)
w = torch.quantize_per_tensor(torch.ones(8, 16), 0.1, 0, torch.qint8)
p = torch.ops.quantized.linear_prepack(w, None)
z = torch.ops.quantized.linear(torch.quantize_per_tensor(torch.ones(3, 16), 0.1, 0, torch.quint8),
                               p, 0.5, 0)
print("sum", int(y.int_repr().sum()), int(z.int_repr().sum()))
print("isa", cpuaccel._C.isa())
print("calls", cpuaccel.stats()["calls"])
"""


def taps(position: int) -> int:
    """Taps of a 3-wide kernel with padding 1 that lie inside a row of 6."""
    return 3 if 0 < position < 5 else 2


# All values are ones: 8 input channels times the taps inside the image, in quanta of 0.5; 16 inputs
# for the linear layer.
CONV_SUM = 8 * sum(round(8 * taps(r) * taps(c) / 0.5) for r in range(6) for c in range(6))
EXPECTED = f"sum {CONV_SUM} {3 * 8 * round(16 / 0.5)}"

needs_onednn = pytest.mark.skipif(
    cpuaccel._C.build_info()["onednn_compiled"] is None,
    reason="`python -m cpuaccel info` says `oneDNN compiled with none`",
)


def run(code: str, prefix: list[str] | None = None, **environment: str) -> str:
    """Standard output of ``code`` in a fresh interpreter outside the checkout."""
    result = subprocess.run(
        [*(prefix or []), sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=pathlib.Path(sys.executable).parent,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(shutil.which("cmake") is None, reason="`command -v cmake` finds nothing")
@pytest.mark.parametrize(
    ("processor", "bytes_", "order", "refused"),
    [
        ("armv7l", 4, "LITTLE_ENDIAN", "not on armv7l (32 bits, LITTLE_ENDIAN)"),
        ("aarch64_be", 8, "BIG_ENDIAN", "not on aarch64_be (64 bits, BIG_ENDIAN)"),
        ("ppc64le", 8, "LITTLE_ENDIAN", "not on ppc64le (64 bits, LITTLE_ENDIAN)"),
        ("aarch64", 8, "LITTLE_ENDIAN", ""),
    ],
)
def test_a_build_for_another_architecture_says_so(
    processor: str, bytes_: int, order: str, refused: str
) -> None:
    script = pathlib.Path(__file__).parents[1] / "cmake" / "IsaSources.cmake"
    facts = {
        "SYSTEM_PROCESSOR": processor,
        "SIZEOF_VOID_P": bytes_,
        "CXX_BYTE_ORDER": order,
    }
    definitions = [f"-DCMAKE_{name}={value}" for name, value in facts.items()]
    result = subprocess.run(
        ["cmake", *definitions, "-P", script], capture_output=True, text=True, check=False
    )
    assert (result.returncode != 0) == bool(refused)
    assert refused in " ".join(result.stderr.split())


def test_the_wheel_asks_for_a_torch_that_it_has_a_shim_for() -> None:
    from packaging.requirements import Requirement

    requirements = map(Requirement, importlib.metadata.requires("cpuaccel") or [])
    (wanted,) = (each.specifier for each in requirements if each.name == "torch")
    shims = [tuple(map(int, version.split("."))) for version in cpuaccel._shim.built()]
    assert torch.__version__ in wanted
    for minor in range(30):
        assert (f"2.{minor}.0" in wanted) == ((2, minor) in shims)


def installed_licenses() -> dict[str, str]:
    """The texts in `licenses` of the installed .dist-info folder, by their path in it."""
    found = {}
    for file in importlib.metadata.files("cpuaccel") or []:
        if file.parts[0].endswith(".dist-info") and file.parts[1] == "licenses":
            found["/".join(file.parts[2:])] = file.read_text(encoding="utf-8")
    return found


def test_the_license_and_the_notice_are_installed() -> None:
    named = importlib.metadata.metadata("cpuaccel").get_all("License-File") or []
    assert sorted(named) == ["LICENSE", "NOTICE"]
    found = installed_licenses()
    for name in named:
        assert found[name] == (ROOT / name).read_text(encoding="utf-8")


@needs_onednn
def test_the_licenses_of_the_bundled_onednn_are_installed() -> None:
    found = installed_licenses()
    assert "Apache License" in found["onednn/LICENSE"]
    assert re.search(r"Copyright [-\d]+ Intel Corporation", found["onednn/LICENSE"])
    # oneDNN contains Xbyak, whose license asks for its notice beside every binary.
    assert "MITSUNARI Shigeo" in found["onednn/THIRD-PARTY-PROGRAMS"]


def _files_of_onednn() -> list[importlib.metadata.PackagePath]:
    try:
        return importlib.metadata.files("onednn-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(
            "`pip show onednn-cpu-gomp` finds no package: PyPI has it for x86-64 only, and a wheel"
            " does not need it"
        )


def test_the_notice_has_the_copyright_lines_of_the_onednn_on_pypi() -> None:
    (text,) = (
        file for file in _files_of_onednn() if str(file).endswith("share/doc/onednn/LICENSE")
    )
    lines = re.findall(r"^ *(Copyright \d.*)$", text.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    assert set(lines) <= set((ROOT / "NOTICE").read_text(encoding="utf-8").splitlines())


@needs_onednn
def test_onednn_is_bundled_under_a_name_of_our_own() -> None:
    code = "import torch, cpuaccel; print(open('/proc/self/maps').read())"
    mapped = set(re.findall(r"\S*/lib\S*dnnl\S*", run(code)))
    assert [pathlib.Path(path).name for path in mapped] == ["libcpuaccel_dnnl.so.3"]


@needs_front_end
@needs_onednn
def test_another_libdnnl_does_not_take_its_place() -> None:
    others = [str(f.locate()) for f in _files_of_onednn() if str(f).endswith("libdnnl.so.3")]
    if not others:
        pytest.skip("`pip show -f onednn-cpu-gomp` lists no libdnnl.so.3, which would be preloaded")
    output = run(LINEAR, LD_PRELOAD=others[0], CPUACCEL_PROVIDER="onednn")
    assert EXPECTED in output
    assert "conv2d.onednn" in output


@pytest.mark.parametrize("provider", ["auto", "onednn", "fbgemm"])
def test_a_capped_isa_gives_the_same_numbers(provider: str) -> None:
    output = run(LINEAR, CPUACCEL_MAX_ISA="avx2", CPUACCEL_PROVIDER=provider)
    assert EXPECTED in output
    assert "isa avx2" in output


@needs_front_end
@pytest.mark.long
def test_runs_on_a_haswell() -> None:
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("`command -v qemu-x86_64` finds nothing: Debian has it in qemu-user")
    with_onednn = LINEAR + 'cpuaccel.config.set("provider", "onednn")\n' + LINEAR
    output = run(with_onednn, [qemu, "-cpu", "Haswell"])
    assert output.count(EXPECTED) == 2
    assert "isa avx2" in output
    assert "conv2d.onednn" in output.splitlines()[-1]


@needs_front_end
def test_ops_have_names_in_the_profiler() -> None:
    torch.backends.quantized.engine = "x86"
    weight = torch.quantize_per_tensor(torch.ones(4, 8), 0.1, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    src = torch.quantize_per_tensor(torch.ones(2, 8), 0.1, 0, torch.quint8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ops.quantized.linear(src, packed, 0.5, 0)
    assert any(event.key.startswith("cpuaccel::linear.") for event in profile.key_averages())

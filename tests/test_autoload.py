"""`import torch` alone enables the engine, quickly, silently, and without ever failing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from quant._engine import needs_front_end

import cpuaccel

MAX_MILLISECONDS = 60.0
MAX_MEGABYTES = 8.0

OFF_AT_START = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

AUTOLOAD = """
import sys, warnings
import cpuaccel
from cpuaccel._autoload import autoload
{prepare}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    autoload()
print(len(caught), *(f"{{w.category.__name__}}: {{w.message}}" for w in caught))
print(cpuaccel.is_enabled())
try:
    cpuaccel.enable()
except RuntimeError as error:
    print(error)
import torch
print(torch.ones(2).sum().item())
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run Python code in a new process, without cpuaccel's variables in its environment."""

    def run(code: str, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = ("CPUACCEL", "TORCH_LOGS", "TORCH_DEVICE_BACKEND_AUTOLOAD", "LRU_CACHE", "PYTHONWARN")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        return subprocess.run(
            [sys.executable, *flags, "-c", code],
            env={**clean, **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def _output(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_import_torch_switches_on_and_prints_nothing(run) -> None:
    done = run("import torch, sys; assert sys.modules['cpuaccel'].is_enabled()")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_of_the_package_first(run) -> None:
    assert _output(run("import cpuaccel; print(cpuaccel.is_enabled())")) == ["True"]


def test_off_by_environment_does_not_load_the_module(run) -> None:
    code = """
import torch, sys, cpuaccel
print(cpuaccel.is_enabled(), "cpuaccel._C" in sys.modules)
cpuaccel.enable()
print(cpuaccel.is_enabled())
"""
    assert _output(run(code, CPUACCEL="0")) == ["False False", "True"]


def test_torch_autoload_switch_still_works(run) -> None:
    code = """
import torch, sys
print("cpuaccel" in sys.modules)
import cpuaccel
print(cpuaccel.is_enabled())
cpuaccel.enable()
print(cpuaccel.is_enabled())
"""
    assert _output(run(code, **OFF_AT_START)) == ["False", "False", "True"]


def test_import_is_lazy(run) -> None:
    code = """
import torch, sys
print(*sorted({"rich", "argparse", "cpuaccel._explain", "cpuaccel._cli"} & set(sys.modules)))
"""
    with_it = _output(run(code))
    without = _output(run(code, **OFF_AT_START))
    assert with_it == without


def test_import_is_quick_and_small(run) -> None:
    # The collection first: on Python 3.13 importing torch leaves a full one due, which would start
    # somewhere in cpuaccel's import.
    code = """
import torch, gc, time
gc.collect()
def resident():
    # Without mapped files: how many of their pages count depends on the page cache.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if "RssAnon" in line) / 2**10
before, start = resident(), time.process_time()
from cpuaccel._autoload import autoload
autoload()
print((time.process_time() - start) * 1e3, resident() - before)
"""
    # CPU time, and the smallest of several runs: other work on the machine only adds to it.
    runs = [tuple(map(float, _output(run(code, **OFF_AT_START))[0].split())) for _ in range(5)]
    assert min(milliseconds for milliseconds, _ in runs) < MAX_MILLISECONDS
    assert min(megabytes for _, megabytes in runs) < MAX_MEGABYTES


def test_other_torch_warns_once_and_leaves_torch_alone(run) -> None:
    prepare = "import cpuaccel._build_info as built; built.SHIMS = {'2.1': '2.1.0', '2.2': '2.2.0'}"
    code = AUTOLOAD.format(prepare=prepare) + "print('cpuaccel._C' in sys.modules)"
    warned, enabled, raised, total, loaded = _output(run(code, **OFF_AT_START))
    assert warned.startswith("1 RuntimeWarning: cpuaccel is off")
    for text in (warned, raised):
        assert "built for torch 2.1 and 2.2 " in text
        assert "pip install" in text
    assert (enabled, total, loaded) == ("False", "2.0", "False")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        ("sys.modules['cpuaccel._C'] = None", "cannot be loaded"),
        ("sys.modules['cpuaccel._build_info'] = None", "not built"),
    ],
)
def test_broken_build_warns_once(run, prepare: str, reason: str) -> None:
    code = AUTOLOAD.format(prepare=prepare)
    warned, enabled, raised, total = _output(run(code, **OFF_AT_START))
    assert warned.startswith("1 RuntimeWarning: cpuaccel is off")
    for text in (warned, raised):
        assert reason in text
        assert "pip install" in text
    assert (enabled, total) == ("False", "2.0")


@pytest.mark.skipif(
    platform.machine() != "x86_64",
    reason="`uname -m` is not x86_64: only there AVX2 may be missing",
)
def test_unsupported_cpu_warns_once(run) -> None:
    prepare = """
from cpuaccel import _shim
_shim.add_to_package()
import cpuaccel._C as native
native.cpu_features = lambda: ['sse4_2']
"""
    code = AUTOLOAD.format(prepare=prepare)
    warned, enabled, raised, total = _output(run(code, **OFF_AT_START))
    assert warned.startswith("1 RuntimeWarning: cpuaccel is off")
    assert "no AVX2" in raised
    assert (enabled, total) == ("False", "2.0")


@pytest.mark.parametrize("variable", ["CPUACCEL", "CPUACCEL_MAX_ISA", "LRU_CACHE_CAPACITY"])
def test_bad_environment_warns_and_import_succeeds(run, variable: str) -> None:
    done = run(
        "import torch, sys; print(sys.modules['cpuaccel'].is_enabled())", **{variable: "no!"}
    )
    assert _output(done) == ["True"]
    assert done.stderr.count("RuntimeWarning") == 1
    assert f"{variable}: expected" in done.stderr
    assert "'no!'" in done.stderr


def test_import_succeeds_where_warnings_are_errors(run) -> None:
    code = """
import sys, warnings
import cpuaccel
from cpuaccel._autoload import autoload
sys.modules["cpuaccel._C"] = None
warnings.simplefilter("error")
autoload()
print(cpuaccel.is_enabled())
"""
    assert _output(run(code, **OFF_AT_START)) == ["False"]


@needs_front_end
def test_torch_logs_prints_decisions(run) -> None:
    code = """
import torch
torch.backends.quantized.engine = "x86"
weight = torch.quantize_per_tensor(torch.randn(16, 16), 0.1, 0, torch.qint8)
packed = torch.ops.quantized.linear_prepack(weight, None)
src = torch.quantize_per_tensor(torch.rand(2, 16), 0.1, 0, torch.quint8)
torch.ops.quantized.linear(src, packed, 0.1, 0)
"""
    logged = run(code, "-W", "ignore", TORCH_LOGS="+cpuaccel")
    assert logged.returncode == 0, logged.stderr
    assert "cpuaccel" in logged.stderr
    assert "linear" in logged.stderr
    assert run(code, "-W", "ignore").stderr == ""


def test_torch_logs_prints_the_switch(run) -> None:
    code = "import torch, cpuaccel; cpuaccel.disable(); cpuaccel.enable()"
    logged = run(code, TORCH_LOGS="cpuaccel").stderr
    assert "cpuaccel is off" in logged
    assert "cpuaccel is on" in logged
    assert run(code).stderr == ""


def test_context_manager_restores_and_nests() -> None:
    before = cpuaccel.is_enabled()
    with cpuaccel.enabled():
        with cpuaccel.enabled(False):
            assert not cpuaccel.is_enabled()
            with cpuaccel.enabled(True):
                assert cpuaccel.is_enabled()
            assert not cpuaccel.is_enabled()
        assert cpuaccel.is_enabled()
    assert cpuaccel.is_enabled() == before


@pytest.mark.parametrize("flag", [True, False])
def test_context_manager_restores_after_an_exception(flag: bool) -> None:
    before = cpuaccel.is_enabled()
    with pytest.raises(KeyError), cpuaccel.enabled(flag):
        raise KeyError
    assert cpuaccel.is_enabled() == before


def test_switching_twice_is_switching_once() -> None:
    with cpuaccel.enabled():
        cpuaccel.enable()
        cpuaccel.disable()
        cpuaccel.disable()
        assert not cpuaccel.is_enabled()


def test_public_names_exist() -> None:
    assert all(hasattr(cpuaccel, name) for name in cpuaccel.__all__)
    assert cpuaccel.__version__[0].isdigit()

"""Checks of the build: compilers and extensions that would break `import torch`, license texts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CMAKE = Path(__file__).resolve().parents[1] / "cmake"

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(checked LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH "{CMAKE}")
include(SharedRuntime)
"""

# A compiler driver that always links libstdc++ statically.
DRIVER = """#!/bin/sh
case " $* " in *" -c "*|*" -E "*) exec c++ "$@" ;; esac
exec c++ "$@" -static-libstdc++
"""

needs_cmake = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None,
    reason="`command -v cmake` or `command -v c++` finds nothing",
)
needs_cmake_alone = pytest.mark.skipif(
    shutil.which("cmake") is None, reason="`command -v cmake` finds nothing"
)


def _configured(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    folder.joinpath("CMakeLists.txt").write_text(PROJECT)
    return subprocess.run(
        ["cmake", "-S", folder, "-B", folder / "build", *options],
        capture_output=True,
        text=True,
        check=False,
    )


@needs_cmake
def test_a_compiler_that_links_the_shared_library_is_accepted(tmp_path: Path) -> None:
    done = _configured(tmp_path)
    assert done.returncode == 0, done.stderr


@needs_cmake
@pytest.mark.parametrize("how", ["driver", "linker flags", "compiler flags"])
def test_a_compiler_that_links_libstdcxx_statically_is_rejected(tmp_path: Path, how: str) -> None:
    driver = tmp_path / "static-c++"
    driver.write_text(DRIVER)
    driver.chmod(0o755)
    option = {
        "driver": f"-DCMAKE_CXX_COMPILER={driver}",
        "linker flags": "-DCMAKE_MODULE_LINKER_FLAGS=-static-libstdc++",
        "compiler flags": "-DCMAKE_CXX_FLAGS=-static-libstdc++",
    }[how]
    done = _configured(tmp_path, option)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "links the C++ library (libstdc++) statically" in said
    assert "`import torch` ends in a segmentation fault" in said


LICENSED = f"""
cmake_minimum_required(VERSION 3.25)
project(licensed LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH "{CMAKE}")
include(OneDnnLicense)
cpuaccel_install_onednn_license("${{CMAKE_SOURCE_DIR}}/onednn")
"""


def _licensed(folder: Path) -> str:
    """Configures and installs LICENSED; returns what CMake wrote to stderr."""
    folder.joinpath("CMakeLists.txt").write_text(LICENSED)
    metadata = f"-DSKBUILD_METADATA_DIR={folder / 'metadata'}"
    said = ""
    for arguments in (["-S", folder, "-B", folder / "build", metadata], ["--install", "build"]):
        done = subprocess.run(
            ["cmake", *arguments], cwd=folder, capture_output=True, text=True, check=True
        )
        said += done.stderr
    return " ".join(said.split())


@needs_cmake_alone
@pytest.mark.parametrize("documents", ["onednn", "dnnl", "oneDNN"])
def test_the_license_texts_of_onednn_are_installed(tmp_path: Path, documents: str) -> None:
    texts = tmp_path / "onednn" / "share" / "doc" / documents
    texts.mkdir(parents=True)
    for name in ("LICENSE", "THIRD-PARTY-PROGRAMS", "README"):
        texts.joinpath(name).write_text(f"{name} of {documents}")
    assert _licensed(tmp_path) == ""
    installed = tmp_path / "metadata" / "licenses" / "onednn"
    assert {file.name: file.read_text() for file in installed.iterdir()} == {
        name: f"{name} of {documents}" for name in ("LICENSE", "THIRD-PARTY-PROGRAMS")
    }


@needs_cmake_alone
def test_a_onednn_without_license_texts_is_reported(tmp_path: Path) -> None:
    said = _licensed(tmp_path)
    assert "The wheel contains oneDNN without its license texts" in said
    assert not (tmp_path / "metadata").exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="`command -v cc` finds nothing")
def test_an_extension_that_crashes_on_import_fails_the_build(tmp_path: Path) -> None:
    source, library = tmp_path / "crash.c", tmp_path / "_C.so"
    source.write_text(
        "__attribute__((constructor)) static void crash(void) { *(volatile int *)0 = 1; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [sys.executable, CMAKE / "import_extension.py", library],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ends in signal SIGSEGV" in done.stderr


def test_the_installed_extension_imports() -> None:
    import cpuaccel

    extension = Path(cpuaccel._C.__file__)
    libraries = Path(cpuaccel.__file__).parent / "lib"
    # oneDNN first: the core needs it.
    beside = [*libraries.glob("libcpuaccel_dnnl.so*"), libraries / "libcpuaccel_core.so"]
    subprocess.run([sys.executable, CMAKE / "import_extension.py", extension, *beside], check=True)

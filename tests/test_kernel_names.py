"""Checks the names of kernels: docs/internals/kernels.md has the grammar.

Family folders, their files, kernel lists, functions, tests and benchmarks are compared with each
other and with the tables of ISAs, without building anything.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "csrc" / "kernels"

# Folders of code that several families include.
SHARED = {"byte_vectors", "csr", "dot4", "float_vectors"}

# Families whose functions are not named after the family, and the names of the functions.
OTHER_FUNCTIONS = {
    "binary": {"add", "mul"},  # the two ops of the family
    "gather": {"copy_row"},  # its kernels copy one long row; gather.cpp has the loop over rows
    "peaks": {"peak"},  # peak_<rate>_<isa>, one measurement each
}

# Families without tests/cpp/test_<family>.cpp.
UNTESTED = {"peaks"}  # tests/compile/test_steps.py checks the rates that it measures

# Benchmarks that are not named after a family, and why.
OTHER_BENCHMARKS = {"read_ahead"}  # prefetching, which several families share

# Families whose list combines the kernels of other families, so that its lines name no files.
COMPOSED = {"qattention"}

FAMILIES = sorted({path.parent.name for path in KERNELS.glob("*/*.h")})
LISTED = sorted(path.parent.name for path in KERNELS.glob("*/kernels.inc"))


def isa_names() -> list[str]:
    """The ISA names of kernel files, lowest first, as cmake/IsaSources.cmake has their flags."""
    text = (ROOT / "cmake" / "IsaSources.cmake").read_text(encoding="utf-8")
    return re.findall(r"^set\(CPUACCEL_FLAGS_(\w+)", text, re.MULTILINE)


def lines_of(family: str) -> list[tuple[list[str], str]]:
    """The lines of a kernel list: the arguments in front of the kernel's name, and the name."""
    text = (KERNELS / family / "kernels.inc").read_text(encoding="utf-8")
    lines = []
    for line in text.splitlines():
        if not line or line.startswith("//"):
            continue
        match = re.fullmatch(r"CPUACCEL_(?:[A-Z]+_)?(KERNEL|COMPOSED)\((.*)\)", line)
        assert match, f"{family}/kernels.inc: {line!r} is not a line of a kernel list"
        arguments = match[2].split(", ")
        if match[1] == "COMPOSED":
            lines.append(([], arguments[0]))
        else:
            lines.append((arguments[:-1], arguments[-1]))
    return lines


def functions_of(family: str) -> set[str]:
    """The functions that a line of the list declares, without the ISA."""
    declared = set()
    for header in KERNELS.joinpath(family).glob("*.h"):
        text = header.read_text(encoding="utf-8").replace("\\\n", " ")
        for definition in re.findall(r"^#define CPUACCEL_\w*KERNEL\(.*$", text, re.MULTILINE):
            declared.update(re.findall(r"(\w+)_##(?:rate##_##)?name\b", definition))
    return declared


def test_both_tables_of_isas_have_the_same_names() -> None:
    text = (KERNELS / "kernel_list.h").read_text(encoding="utf-8")
    names = re.findall(r"^#define CPUACCEL_ISA_(\w+)\(", text, re.MULTILINE)
    assert sorted(names) == sorted(isa_names())
    assert all(re.fullmatch(r"ref|x86_[a-z0-9]+|arm64_[a-z0-9]+", name) for name in names)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in SHARED])
def test_a_family_has_its_header_its_dispatch_and_its_test(family: str) -> None:
    assert (KERNELS / family / f"{family}.h").is_file()
    assert (KERNELS / family / f"{family}.cpp").is_file()
    if family not in UNTESTED:
        assert (ROOT / "tests" / "cpp" / f"test_{family}.cpp").is_file()
    cmake = (KERNELS / "CMakeLists.txt").read_text(encoding="utf-8")
    assert re.search(rf"^cpuaccel_kernel_family\({family}[ )]", cmake, re.MULTILINE)


@pytest.mark.parametrize("family", [name for name in LISTED if name not in COMPOSED])
def test_a_list_has_the_files_of_isas_in_the_folder(family: str) -> None:
    in_folder = {
        path.stem
        for path in KERNELS.joinpath(family).glob("*.cpp")
        if re.match(r"x86_|arm64_|ref\b", path.stem)
    }
    assert {name for _, name in lines_of(family)} == in_folder


@pytest.mark.parametrize("family", LISTED)
def test_a_list_is_best_isa_first(family: str) -> None:
    known = isa_names()
    lists: dict[str, list[str]] = {}
    for arguments, name in lines_of(family):
        lists.setdefault(" ".join(arguments), []).append(name)
    for names in lists.values():
        for architecture in ("x86_", "arm64_"):
            places = [known.index(name) for name in names if name.startswith(architecture)]
            assert places == sorted(set(places), reverse=True)
        assert "ref" not in names[:-1]
    assert lines_of(family)[-1][1] == "ref"


@pytest.mark.parametrize("family", [name for name in LISTED if name not in COMPOSED])
def test_functions_are_named_after_family_and_isa(family: str) -> None:
    functions = functions_of(family)
    assert functions
    expected = OTHER_FUNCTIONS.get(family)
    if expected is not None:
        assert functions == expected
    else:
        assert all(name == family or name.startswith(f"{family}_") for name in functions)
    for arguments, isa in lines_of(family):
        text = (KERNELS / family / f"{isa}.cpp").read_text(encoding="utf-8")
        for name in functions:
            whole = "_".join([name, *arguments, isa])
            assert re.search(rf"\b{whole}\(", text), f"{family}/{isa}.cpp has no {whole}"


def test_a_benchmark_is_named_after_its_family() -> None:
    files = ROOT.joinpath("benchmarks", "cpp").glob("bench_*.cpp")
    names = {path.stem.removeprefix("bench_") for path in files}
    assert names - set(FAMILIES) == OTHER_BENCHMARKS

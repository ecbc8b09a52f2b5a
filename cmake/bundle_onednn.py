"""Copies libdnnl under our own SONAME and gives its dynamic symbols our own prefix.

Writes OUTPUT/libcpuaccel_dnnl.so.3 and OUTPUT/cpuaccel_dnnl_symbols.h, which renames the C
functions of oneDNN's API in the sources that include it first.
"""

import argparse
import pathlib
import shutil
import subprocess

SONAME = "libcpuaccel_dnnl.so.3"
PREFIX = "cpuaccel_"


def dynamic_symbols(nm: str, library: pathlib.Path) -> list[str]:
    """Defined dynamic symbols of oneDNN itself (not of the standard library's templates)."""
    listing = subprocess.run(
        [nm, "-D", "--defined-only", "--format=posix", str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = (line.split()[0] for line in listing.splitlines() if line)
    return sorted({name for name in names if "dnnl" in name and "@" not in name})


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--patchelf", required=True)
    parser.add_argument("--nm", required=True)
    arguments = parser.parse_args()

    arguments.output.mkdir(parents=True, exist_ok=True)
    symbols = dynamic_symbols(arguments.nm, arguments.library)
    names = arguments.output / "symbols.map"
    names.write_text("".join(f"{name} {PREFIX}{name}\n" for name in symbols))
    bundled = arguments.output / SONAME
    shutil.copyfile(arguments.library, bundled)
    bundled.chmod(0o755)
    subprocess.run(
        [arguments.patchelf, "--set-soname", SONAME, "--rename-dynamic-symbols", names, bundled],
        check=True,
    )
    functions = (name for name in symbols if name.startswith("dnnl_"))
    header = "".join(f"#define {name} {PREFIX}{name}\n" for name in functions)
    (arguments.output / "cpuaccel_dnnl_symbols.h").write_text(f"#pragma once\n{header}")


if __name__ == "__main__":
    main()

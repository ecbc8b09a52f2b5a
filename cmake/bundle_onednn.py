"""Copies libdnnl under a new SONAME and gives its dynamic symbols the prefix cpuaccel_.

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


def write_if_changed(path: pathlib.Path, text: str) -> bool:
    """Writes `text` unless the file has it. A newer header recompiles all files that include it."""
    if path.exists() and path.read_text() == text:
        return False
    path.write_text(text)
    return True


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
    renamed = write_if_changed(names, "".join(f"{name} {PREFIX}{name}\n" for name in symbols))
    bundled = arguments.output / SONAME
    stale = not bundled.exists() or bundled.stat().st_mtime < arguments.library.stat().st_mtime
    if renamed or stale:
        # Under another name until it is whole: a run that failed here is not taken for done.
        copy = bundled.with_name(f"{SONAME}.new")
        shutil.copyfile(arguments.library, copy)
        copy.chmod(0o755)
        subprocess.run(
            [arguments.patchelf, "--set-soname", SONAME, "--rename-dynamic-symbols", names, copy],
            check=True,
        )
        copy.replace(bundled)
    functions = (name for name in symbols if name.startswith("dnnl_"))
    header = "".join(f"#define {name} {PREFIX}{name}\n" for name in functions)
    write_if_changed(arguments.output / "cpuaccel_dnnl_symbols.h", f"#pragma once\n{header}")


if __name__ == "__main__":
    main()

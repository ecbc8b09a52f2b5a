"""Checks that no ISA object exports a weak symbol.

    [NM=aarch64-linux-gnu-nm] python check_isa_objects.py BUILD_DIRECTORY

The linker keeps one copy of a weak function (an inline function, a template). If it keeps the copy
that was compiled with AVX-512 flags, a machine without AVX-512 dies of SIGILL even outside of
kernels.
"""

import os
import pathlib
import subprocess
import sys

WEAK = {"W", "V", "u"}


def weak_symbols(path: pathlib.Path) -> list[str]:
    """Weak or unique symbols that the object file ``path`` defines."""
    listing = subprocess.run(
        [os.environ.get("NM", "nm"), "--defined-only", "--demangle", str(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = (line.split(maxsplit=2) for line in listing.splitlines())
    return [row[2] for row in rows if len(row) == 3 and row[1] in WEAK]


def main() -> int:
    """Checks every x86_* and arm64_* object below the directory given; 1 if one is bad."""
    build = pathlib.Path(sys.argv[1])
    objects = [
        path
        for path in sorted(build.rglob("*.o"))
        if path.name.startswith(("x86_", "arm64_")) and "kernels" in path.parts
    ]
    if not objects:
        print(f"no ISA objects below {build}")
        return 1
    bad = {path: symbols for path in objects if (symbols := weak_symbols(path))}
    for path, symbols in bad.items():
        print(f"{path}: weak symbols {', '.join(symbols)}")
    print(f"{len(objects)} ISA objects, {len(bad)} with weak symbols")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

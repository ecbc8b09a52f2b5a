"""Imports the built extension into a process with torch; a step of the build.

An extension that does not fit torch's libraries (another C++ library, a missing symbol) builds
without an error, and would end every `import torch` of the user's.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import subprocess
import sys

_CODE = """
import ctypes, importlib.util, sys
import torch
for library in sys.argv[2:]:
    ctypes.CDLL(library)
spec = importlib.util.spec_from_file_location("cpuaccel._C", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
assert torch.ones(3).sum() == 3
"""


def main() -> None:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extension", type=pathlib.Path, help="the built cpuaccel._C")
    parser.add_argument(
        "libraries", nargs="*", help="libraries that an installed extension finds beside it"
    )
    options = parser.parse_args()
    # torch alone: no extension that is installed already, neither cpuaccel nor another one.
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(options.extension), *options.libraries],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return
    how = f"exit status {done.returncode}"
    if done.returncode < 0:
        how = f"signal {signal.Signals(-done.returncode).name}"
    raise SystemExit(
        f"{options.extension} was built, and importing it with torch ends in {how}.\n{done.stdout}"
        "Such an extension would break every `import torch`. Does the compiler match torch's "
        "libraries (libstdc++.so, libgomp.so)? "
        "-DCPUACCEL_IMPORT_EXTENSION=OFF builds without this check."
    )


if __name__ == "__main__":
    main()

"""Prints torch's directory and version for CMake, without importing torch (seconds saved)."""

import importlib.metadata
import importlib.util

spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    raise SystemExit("torch is not installed in the Python that builds cpuaccel")
print(f"{spec.submodule_search_locations[0]};{importlib.metadata.version('torch')}", end="")

"""Lets transformers find no torchvision when it asks whether there is one.

PyPI's torchvision does not import beside a CPU build of torch, and models of transformers import it
if it is installed. Tests of torchvision itself import it as benchmarks/_torchvision.py does.
"""

import importlib.util
from importlib.machinery import ModuleSpec

_find = importlib.util.find_spec


def _find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
    return None if name == "torchvision" else _find(name, package)


importlib.util.find_spec = _find_spec

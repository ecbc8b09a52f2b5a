"""Lets transformers find no torchvision when it asks whether there is one.

PyPI's torchvision does not import beside a CPU build of torch, and models of transformers import it
if it is installed. Tests of torchvision itself import it as benchmarks/_torchvision.py does.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec

_find = importlib.util.find_spec


def _find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
    asks = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
    return None if (name, asks) == ("torchvision", "transformers") else _find(name, package)


importlib.util.find_spec = _find_spec

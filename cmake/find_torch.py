"""Prints the directory of the installed torch, or nothing. Importing torch would take seconds."""

import importlib.util

spec = importlib.util.find_spec("torch")
if spec is not None and spec.submodule_search_locations:
    print(spec.submodule_search_locations[0], end="")

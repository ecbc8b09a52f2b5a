"""Blocks torch.ao in processes that tests start: this folder is in their PYTHONPATH.

Python imports this module when it starts, before anything else.
"""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "_torch_ao_block", Path(__file__).resolve().parents[1] / "_torch_ao_block.py"
)
assert _spec is not None
assert _spec.loader is not None
_block = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _block  # conftest.py imports it too, in pytest-xdist's workers
_spec.loader.exec_module(_block)
_block.install()

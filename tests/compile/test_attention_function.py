"""Which attention functions cpuaccel's kernel computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cpuaccel.compile.capture.attention_function import Heads, heads_of, kernel_of

try:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.gemma2 import modeling_gemma2
    from transformers.models.gpt_oss import modeling_gpt_oss
    from transformers.models.llama import modeling_llama
except Exception as error:  # a torchvision of another torch raises anything
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

_HEADS = Heads(4, 2, 16, torch.float32)


class _Module(nn.Module):
    num_key_value_groups = 2
    head_dim = 16

    def __init__(self) -> None:
        super().__init__()
        self.sinks = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 30.0]))
        self.eval()


def _kernel(attend: Any, heads: Heads | None = _HEADS, **options: Any) -> Any:
    module = _Module()
    if "s_aux" in options:
        options["s_aux"] = module.sinks
    return kernel_of(module, attend, {"scaling": 0.3, "dropout": 0.0, **options}, heads)


_LLAMA = modeling_llama.eager_attention_forward
_GEMMA = modeling_gemma2.eager_attention_forward
_GPT_OSS = modeling_gpt_oss.eager_attention_forward


def test_functions_of_models() -> None:
    assert _kernel(_LLAMA) == (0.3, 0.0, None)
    assert _kernel(_GEMMA, softcap=50.0) == (0.3, 50.0, None)
    assert _kernel(_GEMMA, softcap=None, sliding_window=8) == (0.3, 0.0, None)
    found = _kernel(_GPT_OSS, s_aux=True)
    assert found.soft_cap == 0.0
    assert found.sinks.tolist() == [0.5, -1.0, 2.0, 30.0]
    assert _kernel(sdpa_attention_forward) == (0.3, 0.0, None)
    assert _kernel(sdpa_attention_forward, None, scaling=None) == (None, 0.0, None)


def _without_mask(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **options: Any) -> Any:
    return _LLAMA(module, q, k, v, None, **options)


def _of_other_values(
    module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **options: Any
) -> Any:
    return _LLAMA(module, q, k, v.abs(), mask, **options)


def _that_raises(*_: Any, **__: Any) -> Any:
    raise ValueError("it demands something else")


def _of_other_sizes(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **options: Any) -> Any:
    return (_LLAMA(module, q, k, v, mask, **options)[0].flatten(2),)


@pytest.mark.parametrize(
    "attend", [_without_mask, _of_other_values, _that_raises, _of_other_sizes, lambda *_, **__: [0]]
)
def test_other_functions_run_themselves(attend: Any) -> None:
    assert _kernel(attend) is None


def test_an_option_that_the_function_ignores_or_adds() -> None:
    assert _kernel(_LLAMA, softcap=2.0) is None
    assert _kernel(_LLAMA, softcap=50.0) is None
    assert _kernel(_LLAMA, s_aux=True) is None
    assert _kernel(_GPT_OSS) is None  # it reads the module's sinks
    assert _kernel(_LLAMA, bias=torch.zeros(1)) is None
    assert _kernel(_LLAMA, dropout=0.1) is None
    assert _kernel(sdpa_attention_forward, softcap=2.0) is None


class _Attention:
    """It has a state, as T5's bias by position has."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        return pytest.fail("it was tried")


def test_only_functions_are_tried() -> None:
    assert _kernel(_Attention()) is None


def test_sizes_that_the_kernel_does_not_take() -> None:
    query, key, value = (torch.zeros(1, count, 3, 16) for count in (4, 2, 2))
    assert heads_of(query, key, value) == _HEADS
    assert heads_of(query, key, value[..., :8]) is None  # multi-head latent attention
    assert heads_of(query[..., :8], key, value) is None
    assert heads_of(query[:, :3], key, value) is None
    assert _kernel(_LLAMA, None) is None

"""Ways in which a call is traced, rewritten or compiled before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from calls._row import QUANTIZED, Call, Forms, Sample
from calls._way import ONE_OF_A_KIND, Run, Way, is_tensor, on_a_copy, parts, with_tensors

_TRACED = (torch.float32, torch.bfloat16, torch.int64, torch.quint8)


def _functionalize(call: Call, sample: Sample) -> Any:
    function, tensors = parts(call, sample, is_tensor)
    return torch.func.functionalize(function)(*tensors)


def _make_fx(mode: str) -> Callable[[Call, Sample], Any]:
    def run(call: Call, sample: Sample) -> Any:
        function, tensors = parts(call, sample, is_tensor)
        return make_fx(function, tracing_mode=mode)(*tensors)(*tensors)

    return run


def _fake(call: Call, sample: Sample) -> Any:
    """The result's shape and dtype: fake tensors have no values."""
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        given = with_tensors(sample, mode.from_tensor)
        result = call(*given.args, **given.kwargs)
    return tree_map(lambda leaf: _meta(leaf) if isinstance(leaf, Tensor) else leaf, result)


def _meta(fake: Tensor) -> Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")


class _Closed(nn.Module):
    """A call as a module of its tensors; modules among its arguments are submodules."""

    def __init__(self, function: Call, sample: Sample) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(a for a in sample.args if isinstance(a, nn.Module))

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


def _export(call: Call, sample: Sample) -> Any:
    function, tensors = parts(call, sample, is_tensor)
    closed = _Closed(function, sample)
    return torch.export.export(closed, tuple(tensors)).module()(*tensors)


def _trace(call: Call, sample: Sample) -> Any:
    function, tensors = parts(call, sample, is_tensor)
    return torch.jit.trace(function, tuple(tensors), check_trace=False)(*tensors)


def _compile(*, gradients: bool = True, **options: Any) -> Callable[[Call, Sample], Any]:
    def run(call: Call, sample: Sample) -> Any:
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda args, kwargs: call(*args, **kwargs), dynamic=False, **options
        )
        with torch.set_grad_enabled(gradients):
            return compiled(sample.args, sample.kwargs)

    return run


def _plain_form(of: Callable[[Call, Sample], Any]) -> Run:
    return lambda forms, sample: of(forms.functional, sample)


def _in_place_form(of: Callable[[Call, Sample], Any]) -> Run:
    def run(forms: Forms, sample: Sample) -> Any:
        assert forms.in_place is not None
        return of(on_a_copy(forms.in_place), sample)

    return run


_DYNAMO = {"dtypes": ONE_OF_A_KIND, "layout": False}

WAYS = (
    *(
        Way(f"{name}{end}", make(of), form, _TRACED, layout=layout)
        for name, of, layout in (
            ("functionalize", _functionalize, True),
            ("make_fx", _make_fx("real"), True),
            ("make_fx_symbolic", _make_fx("symbolic"), False),
        )
        for end, form, make in (
            ("", "functional", _plain_form),
            ("_in_place", "in_place", _in_place_form),
        )
    ),
    Way("fake_tensor", _plain_form(_fake), dtypes=(*_TRACED, *QUANTIZED[1:])),
    Way("trace", _plain_form(_trace), dtypes=_TRACED),
    Way("export", _plain_form(_export), most=1, **_DYNAMO),
    Way("compile", _plain_form(_compile()), most=2, **_DYNAMO),
    Way("compile_fullgraph", _plain_form(_compile(fullgraph=True)), most=2, **_DYNAMO),
    Way(
        "compile_in_place",
        _in_place_form(_compile(fullgraph=True)),
        "in_place",
        most=1,
        **_DYNAMO,
    ),
    Way(
        "compile_cpuaccel",
        _plain_form(_compile(backend="cpuaccel", gradients=False)),
        most=1,
        **_DYNAMO,
    ),
)

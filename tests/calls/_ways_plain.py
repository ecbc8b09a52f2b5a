"""Ways that give the result of a plain call: modes, layouts, copies, `out=`, in place."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import torch
from ops._floats import tensors_of
from torch import Tensor

from calls._row import Forms, Sample
from calls._way import Run, Way, eager, with_tensors


def _under(mode: Callable[[], Any]) -> Run:
    def run(forms: Forms, sample: Sample) -> Any:
        with mode():
            return eager(forms, sample)

    return run


def _changed(change: Callable[[Tensor], Tensor]) -> Run:
    return lambda forms, sample: eager(forms, with_tensors(sample, change))


def _strided(x: Tensor) -> Tensor:
    """Every second value of a longer tensor."""
    if x.layout != torch.strided or x.dim() == 0 or x.is_quantized:
        return x
    return torch.stack([x, torch.zeros_like(x)], -1)[..., 0]


def _transposed(x: Tensor) -> Tensor:
    """Dimensions in reverse order in memory."""
    if x.layout != torch.strided or x.dim() < 2:
        return x
    backwards = tuple(reversed(range(x.dim())))
    return x.permute(backwards).contiguous().permute(backwards)


def _offset(x: Tensor) -> Tensor:
    """Rows in the middle of a longer tensor."""
    if x.layout != torch.strided or x.dim() == 0:
        return x
    return torch.cat([x, x, x])[x.shape[0] : 2 * x.shape[0]]


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _expanded(x: Tensor) -> Tensor:
    """A stride of zero in dimensions of one element."""
    if x.layout != torch.strided or x.dim() == 0:
        return x
    return x.as_strided(
        x.shape, [0 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True)]
    )


def _copied(duplicate: Callable[[Any], Any]) -> Run:
    """Copies the arguments and the result."""

    def run(forms: Forms, sample: Sample) -> Any:
        args, kwargs = duplicate((sample.args, sample.kwargs))
        return duplicate(forms.functional(*args, **kwargs))

    return run


def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _in_inference_mode(forms: Forms, sample: Sample) -> Any:
    """All tensors are inference tensors."""
    with torch.inference_mode():
        return eager(forms, with_tensors(sample, lambda t: t.clone()))


def _blank(result: Tensor) -> Tensor:
    """Initial values that must not matter."""
    number = 7 if not (result.is_floating_point() or result.is_complex()) else float("nan")
    if result.is_quantized:
        return result.clone().fill_(1)
    return torch.full_like(result, number)


def _into(make: Callable[[Tensor], Tensor]) -> Run:
    """With `out` made from the result of a plain call; the result is `out`."""

    def run(forms: Forms, sample: Sample) -> Any:
        assert forms.out is not None
        outs = [make(t) for t in tensors_of(eager(forms, sample))]
        results = forms.out(*sample.args, out=outs, **sample.kwargs)
        assert all(a is b for a, b in zip(tensors_of(results), outs, strict=True))
        return outs

    return run


def _out_is_input(forms: Forms, sample: Sample) -> Any:
    """With each argument of the result's size and dtype in turn as `out`."""
    assert forms.out is not None
    outs = []
    for i in _like_result(forms, sample):
        args = list(sample.args)
        args[i] = args[i].clone()
        outs.append(forms.out(*args, out=args[i], **sample.kwargs))
    return outs


def _one_for_each_input(forms: Forms, sample: Sample) -> Any:
    return [eager(forms, sample) for _ in _like_result(forms, sample)]


def _like_result(forms: Forms, sample: Sample) -> list[int]:
    """Positions of arguments that could be `out`."""
    result = eager(forms, sample)
    if not isinstance(result, Tensor):
        return []
    tensors = [(i, arg) for i, arg in enumerate(sample.args) if isinstance(arg, Tensor)]
    return [
        i
        for i, arg in tensors
        if (arg.shape, arg.dtype, arg.layout) == (result.shape, result.dtype, torch.strided)
    ]


def _in_place(make: Callable[[Tensor], Tensor]) -> Run:
    """On a copy of the first argument, which the call returns."""

    def run(forms: Forms, sample: Sample) -> Any:
        assert forms.in_place is not None
        target = make(sample.args[0].clone())
        result = forms.in_place(target, *sample.args[1:], **sample.kwargs)
        assert result is target
        return target

    return run


def _strided_blank(result: Tensor) -> Tensor:
    return _strided(_blank(result))


def _empty(result: Tensor) -> Tensor:
    return result.new_empty(0) if not result.is_quantized else _blank(result)


WAYS = (
    Way("eager", eager),
    Way("empty", eager, kinds=("empty",)),
    Way("no_grad", _under(torch.no_grad)),
    Way("inference_mode", _in_inference_mode),
    Way("autocast", _under(lambda: torch.autocast("cpu", torch.bfloat16)), rough=True),
    Way("strided", _changed(_strided)),
    Way("transposed", _changed(_transposed)),
    Way("offset", _changed(_offset)),
    Way("expanded", _changed(_expanded)),
    Way("channels_last", _changed(_channels_last)),
    Way("deepcopy", _copied(copy.deepcopy)),
    Way("pickle", _copied(_pickled)),
    Way("out", _into(_blank), "out"),
    Way("out_empty", _into(_empty), "out"),
    Way("out_strided", _into(_strided_blank), "out"),
    Way("out_transposed", _into(lambda t: _transposed(_blank(t))), "out"),
    Way("out_is_input", _out_is_input, "out", exact=_one_for_each_input),
    Way("in_place", _in_place(lambda t: t), "in_place"),
    Way("in_place_strided", _in_place(_strided), "in_place"),
    Way("in_place_transposed", _in_place(_transposed), "in_place"),
)

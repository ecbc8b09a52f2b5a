"""Models that the backend cannot run: the result is eager's, and the reason is counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, randomized

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    cpuaccel.reset_stats()


def _conv(**options: Any) -> nn.Conv2d:
    return nn.Conv2d(8, 8, 3, padding=1, **options)


def _agrees(model: nn.Module, *args: Any, calls: int = 2) -> None:
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel")
        for _ in range(calls):
            torch.testing.assert_close(compiled(*args), model(*args), atol=1e-5, rtol=1e-4)


def _regions_ran() -> int:
    return int(cpuaccel.stats()["calls"].get("graph_region.cpuaccel", 0))


def test_an_op_that_nobody_knows_is_between() -> None:
    model = Lambda(lambda self, x: self.b(torch.cumsum(self.a(x), 2)), a=_conv(), b=_conv())
    _agrees(model.eval(), torch.randn(1, 8, 9, 9))
    assert _regions_ran() == 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_other_types(dtype: torch.dtype) -> None:
    model = Lambda(lambda self, x: F.linear(x, self.linear.weight), linear=nn.Linear(8, 8))
    _agrees(model.to(dtype).eval(), torch.randn(3, 8, dtype=dtype))
    assert _regions_ran() == 0
    assert any("type" in reason for reason in cpuaccel.stats()["fallbacks"])


@needs_torch_ao
def test_quantized_tensors() -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        return self.conv(torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize())

    _agrees(Lambda(of, conv=_conv()).eval(), torch.randn(1, 8, 9, 9))


def test_a_shape_that_depends_on_data() -> None:
    model = Lambda(lambda self, x: self.linear(x[x[:, 0] > 0]), linear=nn.Linear(8, 8))
    _agrees(model.eval(), torch.randn(9, 8))


def test_an_empty_batch() -> None:
    model = Lambda(lambda self, x: F.relu(self.conv(x)), conv=_conv())
    _agrees(model.eval(), torch.randn(0, 8, 9, 9))
    assert _regions_ran() == 0


def test_an_empty_batch_after_others() -> None:
    model = Lambda(lambda self, x: F.relu(self.conv(x)), conv=_conv()).eval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
        for batch in (4, 3, 0, 5):
            x = torch.randn(batch, 8, 9, 9)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


def test_training_mode_without_gradients() -> None:
    model = randomized(
        Lambda(lambda self, x: self.norm(self.conv(x)), conv=_conv(), norm=nn.BatchNorm2d(8))
    ).train()
    other = torch.compile(model, backend="cpuaccel")
    with torch.no_grad():
        x = torch.randn(4, 8, 9, 9)
        before = model.norm.running_mean.clone()
        found = other(x)
        after = model.norm.running_mean.clone()
        assert not torch.equal(before, after)
        torch.testing.assert_close(
            found,
            F.batch_norm(
                model.conv(x), None, None, model.norm.weight, model.norm.bias, training=True
            ),
            atol=1e-5,
            rtol=1e-4,
        )


def test_an_input_that_is_written_to() -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        y = self.conv(x)
        x.add_(1)
        return y + self.conv(x)

    model = Lambda(of, conv=_conv()).eval()
    with torch.no_grad():
        a, b = (torch.ones(1, 8, 9, 9) for _ in range(2))
        compiled = torch.compile(model, backend="cpuaccel")
        torch.testing.assert_close(compiled(a), model(b), atol=1e-5, rtol=1e-4)
        assert torch.equal(a, b)


def test_a_buffer_that_is_written_to_in_every_call() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("scale", torch.ones(8, 8))

        def forward(self, x: Tensor) -> Tensor:
            self.scale.mul_(1.5)
            return F.linear(self.linear(x), self.scale)

    a, b = Counting().eval(), Counting().eval()
    b.load_state_dict(a.state_dict())
    x = torch.randn(3, 8)
    with torch.no_grad():
        compiled = torch.compile(a, backend="cpuaccel")
        for _ in range(5):
            torch.testing.assert_close(compiled(x), b(x), atol=1e-5, rtol=1e-4)


def test_outputs_that_share_memory() -> None:
    def of(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = F.relu(self.conv(x))
        return y, y.flatten(1), y[:, :4]

    model = Lambda(of, conv=_conv()).eval()
    with torch.no_grad():
        x = torch.randn(2, 8, 9, 9)
        found = torch.compile(model, backend="cpuaccel")(x)
        for a, b in zip(found, model(x), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        assert found[1].data_ptr() == found[0].data_ptr()


def test_an_input_that_is_returned() -> None:
    model = Lambda(lambda self, x: (x, self.conv(x)), conv=_conv()).eval()
    with torch.no_grad():
        x = torch.randn(1, 8, 9, 9)
        found = torch.compile(model, backend="cpuaccel")(x)
        assert found[0] is x
        torch.testing.assert_close(found[1], model(x)[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "strange",
    [
        lambda x: x[:, :, ::2, ::2],
        lambda x: x.transpose(2, 3),
        lambda x: x[:1].expand(4, -1, -1, -1),
        lambda x: x.permute(3, 1, 2, 0),
    ],
)
def test_inputs_that_lie_strangely(strange: Any) -> None:
    model = Lambda(lambda self, x: F.relu(self.conv(x)), conv=_conv())
    _agrees(model.eval(), strange(torch.randn(8, 8, 8, 8)))


def test_weights_that_lie_strangely() -> None:
    model = Lambda(
        lambda self, x: F.linear(F.relu(self.conv(x)), self.linear.weight.t()),
        conv=_conv(),
        linear=nn.Linear(9, 9),
    )
    model.conv.weight = nn.Parameter(torch.randn(8, 8, 3, 6)[..., ::2])
    _agrees(model.eval(), torch.randn(2, 8, 9, 9))


def test_not_a_number_goes_through_what_is_not_clamped() -> None:
    model = Lambda(lambda self, x: torch.tanh(self.conv(x)), conv=_conv()).eval()
    with torch.no_grad():
        x = torch.randn(1, 8, 9, 9)
        x[0, 0, 4, 4] = torch.nan
        found = torch.compile(model, backend="cpuaccel")(x)
        assert torch.equal(found.isnan(), model(x).isnan())


def test_the_same_twice_is_the_same_bits() -> None:
    model = Lambda(lambda self, x: F.gelu(self.b(F.relu(self.a(x)))), a=_conv(), b=_conv()).eval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel")
        x = torch.randn(2, 8, 33, 33)
        assert torch.equal(compiled(x), compiled(x))

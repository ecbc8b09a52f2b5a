"""The modules that `cpuaccel.quant.fuse` makes, and the ops that they call.

Covers copies, pickles, state dicts, scripts, threads, and what explain() reports of them.
"""

import copy
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from quant._engine import counted, needs_front_end, off, running
from quant._fuse import after_conv, conv, fused_ops, image, quantized, squeeze_excite
from quant._models import seeded
from quant._saved import through_file, through_pickle, through_script

pytestmark = needs_front_end


class Everything(nn.Module):
    """A model with every kind of fused module, but no unfused convolution, which pickle breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.second, self.third = conv(source=3), conv(), conv()
        self.reduce, self.expand = conv(4, kernel=1), conv(source=4, kernel=1)
        self.up, self.last = nn.ConvTranspose2d(8, 8, 3, stride=2), nn.Linear(8, 8)
        self.plain = nn.Sequential(conv(), nn.MaxPool2d(1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.plain(F.hardswish(self.stem(x)))
        x = F.silu(F.silu(self.second(x)) + x)
        x = F.silu(torch.cat((F.relu6(self.third(x)), x), 1)).chunk(2, 1)[0]
        x = x * torch.sigmoid(self.expand(F.relu6(self.reduce(F.adaptive_avg_pool2d(x, 1)))))
        x = F.relu6(self.up(x)).mean([2, 3])
        y = torch.sigmoid(self.last(x))
        return self.last(x) * y


EVERY_KIND = {
    *("Conv2d", "Conv2dTable", "Conv2dAdd", "Conv2dMul"),
    *("LinearTable", "LinearMul", "QuantizedTable"),
}


def fused_model(backend: str = "auto", seed: int = 7) -> nn.Module:
    with torch.no_grad(), running(backend):
        from quant._models import static_fx

        model = static_fx(seeded(Everything, seed), image())
        return cpuaccel.quant.fuse(model, inplace=True)


def _scripted(model: object) -> object:
    assert isinstance(model, nn.Module)
    return torch.jit.script(model)


def _scripted_and_saved(model: object) -> object:
    return through_script(torch.jit.script(model))


def _traced(model: object) -> object:
    return torch.jit.trace(model, image())


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": through_pickle,
    "torch.save": through_file,
    "script": _scripted,
    "script, saved": _scripted_and_saved,
    "trace": _traced,
}


def test_the_model_has_every_kind() -> None:
    kinds = {type(m).__name__ for m in fused_model().modules()}
    assert kinds >= EVERY_KIND, EVERY_KIND - kinds


@pytest.mark.parametrize("backend", ["auto", "intree"])
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_copies(way: str, backend: str) -> None:
    with torch.no_grad(), running(backend):
        model = fused_model(backend)
        made = COPIES[way](model)
        for seed in range(3):
            x = image(seed)
            assert torch.equal(made(x), model(x))
        if way == "deepcopy":
            assert str(made) == str(model)


def test_a_pickle_of_the_plugin_runs_with_the_plugin_off() -> None:
    with torch.no_grad(), running("auto"):
        model = fused_model()
        data, x = pickle.dumps(model), image()
        with off():
            loaded = pickle.loads(data)
            assert torch.equal(loaded(x), model(x))
        assert torch.equal(loaded(x), model(x))


def test_state_dict_of_another_calibration() -> None:
    with torch.no_grad(), running("auto"):
        one, other, x = fused_model(), fused_model(seed=8), image()
        assert not torch.equal(one(x), other(x))
        state = {name: copy.deepcopy(value) for name, value in one.state_dict().items()}
        other.load_state_dict(state)
        assert torch.equal(one(x), other(x))


@pytest.mark.parametrize("key", ["weight", "table", "scale", "own_zero_point"])
def test_a_state_dict_that_lacks_something(key: str) -> None:
    with running("auto"):
        model = fused_model()
        state = model.state_dict()
        del state[f"stem.{key}"]
        with pytest.raises(RuntimeError, match=rf'Missing key.*"stem\.{key}"'):
            model.load_state_dict(state)


def test_state_dict_of_the_unfused_model_is_refused() -> None:
    with running("auto"):
        state = quantized(Everything, image()).state_dict()
        with pytest.raises(RuntimeError, match=r'Missing key.*"stem\.table"'):
            fused_model().load_state_dict(state)


def test_hooks_of_fused_modules_are_called() -> None:
    with torch.no_grad(), running("auto"):
        model = fused_model()
        seen: list[Tensor] = []
        model.stem.register_forward_hook(lambda module, args, output: seen.append(output))
        model(image())
        assert len(seen) == 1
        assert seen[0].shape == (2, 8, 9, 9)
        assert seen[0].q_scale() == model.stem.scale


def test_what_changes_after_the_first_call_counts() -> None:
    with torch.no_grad(), running("auto"):
        x = image()
        model = cpuaccel.quant.fuse(quantized(lambda: after_conv(nn.MaxPool2d(1)), x))
        stem, plain = fused_model().stem, model.get_submodule("0")
        qx = torch.quantize_per_tensor(x, 0.05, 120, torch.quint8)
        for module in (stem, plain):
            module(qx)
            module.scale *= 2
            assert module(qx).q_scale() == module.scale
        black = {"table": torch.zeros_like(stem.table)}
        assert not torch.func.functional_call(stem, black, qx).int_repr().any()
        assert stem(qx).int_repr().any()


@pytest.mark.parametrize("activation", [nn.SiLU(), nn.MaxPool2d(1)])
def test_fx_traces_through_the_modules(activation: nn.Module) -> None:
    with torch.no_grad(), running("auto"):
        model = cpuaccel.quant.fuse(quantized(lambda: after_conv(activation), image()))
        module = model.get_submodule("0")
        qx = torch.quantize_per_tensor(image(), 0.05, 120, torch.quint8)
        assert torch.equal(torch.fx.symbolic_trace(module)(qx), module(qx))


def test_threads() -> None:
    with torch.no_grad(), running("auto"):
        model, images = fused_model(), [image(seed) for seed in range(8)]
        expected = [model(x) for x in images]
        results: dict[int, Tensor] = {}

        def run(index: int) -> None:
            with torch.no_grad():
                for _ in range(5):
                    results[index] = model(images[index])

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(images))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(torch.equal(results[i], expected[i]) for i in range(len(images)))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same(threads: int) -> None:
    with torch.no_grad(), running("auto"):
        x = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(3))
        model = quantized(lambda: after_conv(nn.SiLU()), x)
        fused = cpuaccel.quant.fuse(model)
        torch.set_num_threads(threads)
        assert torch.equal(fused(x), model(x))


def test_any_batch_and_size() -> None:
    with torch.no_grad(), running("auto"):
        model = quantized(Everything, image())
        fused = cpuaccel.quant.fuse(model)
        for batch, side in ((1, 5), (3, 12), (0, 9)):
            x = image(1, batch=batch, side=side)
            assert torch.equal(fused(x), model(x)), (batch, side)


def test_the_ops_run_on_our_engine() -> None:
    with torch.no_grad(), running("auto"):
        model = fused_model()
        model(image())
        with counted() as counts:
            model(image())
    assert counts.ours("conv2d") == 6
    assert counts.ours("linear") == 2
    assert not counts.fallbacks


def test_explain() -> None:
    with torch.no_grad(), running("auto"):
        model = fused_model()
        model(image())
        explanation = cpuaccel.explain(model)
        rows = {row.layer: row for row in explanation.rows if row.fused}
        assert rows["stem"].op == "conv2d + hardswish"
        assert rows["stem"].provider in ("onednn", "fbgemm", "cpuaccel")
        assert rows["stem"].calls == 1
        assert rows["second"].op == "conv2d + dequantize + silu + quantize + add"
        assert {"conv2d + sigmoid + mul", "linear + sigmoid"} < {row.op for row in rows.values()}
        footer = next(line for line in explanation.footer if line.startswith("Fused"))
        assert "1 conv2d + hardswish" in footer
        assert "conv2d + hardswish" in str(explanation)
        assert "conv2d + hardswish, scale=" in repr(model.stem)
        scripted = cpuaccel.explain(torch.jit.script(model))
        assert "cpuaccel::conv2d_table" in {row.op for row in scripted.rows}


def _qx(channels: int = 8, scale: float = 0.05, zero_point: int = 120) -> Tensor:
    x = image(channels=channels).contiguous(memory_format=torch.channels_last)
    return torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)


def _packed() -> object:
    weight = torch.quantize_per_tensor(torch.randn(8, 8, 3, 3), 0.02, 0, torch.qint8)
    return torch.ops.quantized.conv2d_prepack(weight, None, [1, 1], [1, 1], [1, 1], 1)


TABLE = torch.arange(255, -1, -1, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": TABLE[:9]}, r"table to have shape \[256\].*but got shape \[9\]"),
        ({"table": TABLE.to(torch.int32)}, r"table to be a CPU tensor of dtype Byte, but got Int"),
        ({"own_scale": 0.0}, r"own_scale to be positive and finite, but got 0"),
        ({"own_zero_point": 300}, r"own_zero_point to be between 0 and 255, but got 300"),
        ({"scale": -1.0}, r"expected scale to be positive and finite, but got -1"),
        ({"zero_point": -1}, r"expected zero_point to be between 0 and 255, but got -1"),
        ({"qx": lambda: _qx(5)}, r"to have 8 channels, but got 5"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("backend", ["auto", "intree"])
def test_bad_arguments_of_conv2d_table(change: dict, message: str, backend: str) -> None:
    if "channels" in message and backend == "intree":
        pytest.skip("torch raises this error, with another message")
    with running(backend):
        arguments = {"qx": _qx(), "packed": _packed(), "own_scale": 0.1, "own_zero_point": 3}
        arguments |= {"relu": False, "table": TABLE, "scale": 0.2, "zero_point": 4}
        arguments |= {name: value() if callable(value) else value for name, value in change.items()}
        with pytest.raises(RuntimeError, match=message):
            torch.ops.cpuaccel.conv2d_table(*arguments.values())


def test_bad_operands() -> None:
    ops, common = torch.ops.cpuaccel, (0.1, 3, False)
    with running("auto"):
        other = _qx().dequantize()
        with pytest.raises(RuntimeError, match="Expected other data type QUInt8 but got Float"):
            ops.conv2d_add(_qx(), _packed(), *common, None, 1.0, 0, other, 0.2, 4, False)
        with pytest.raises(NotImplementedError, match="conv2d_table"):
            ops.conv2d_table(_qx().dequantize(), _packed(), *common, TABLE, 0.2, 4)
        with pytest.raises(RuntimeError, match=r"groups, 3, to divide the number of channels, 8"):
            ops.shuffle_channels([_qx()], 3, 1, 0, None, 1.0, 0)
        with pytest.raises(RuntimeError, match="chunk below chunks, but got 2, 2 and 2"):
            ops.shuffle_channels([_qx()], 2, 2, 2, None, 1.0, 0)


LAYOUTS = {
    "channels last": lambda q: q,
    "contiguous": lambda q: q.contiguous(),
    "slice of channels": lambda q: q[:, 2:7],
    "slice of rows": lambda q: q[:, :, 1:5],
    "permuted": lambda q: q.permute(3, 0, 2, 1),
    "one pixel": lambda q: q[:, :, :1, :1],
    "one channel": lambda q: q[:, 3:4],
    "flat": lambda q: q.flatten(1),
    "empty": lambda q: q[:0],
    "scalar": lambda q: q[0, 0, 0, 0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_table_of_any_strides(layout: str) -> None:
    qx = LAYOUTS[layout](_qx())
    result = torch.ops.cpuaccel.quantized_table(qx, TABLE, 0.3, 7)
    assert torch.equal(result.int_repr(), TABLE[qx.int_repr().long()])
    assert (result.q_scale(), result.q_zero_point()) == (0.3, 7)
    assert result.is_contiguous() or result.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("operands", [1, 2, 4])
@pytest.mark.parametrize("layout", ["channels last", "contiguous", "one pixel", "empty"])
def test_shuffle_of_any_operands(layout: str, operands: int, groups: int, chunks: int) -> None:
    qxs = [LAYOUTS[layout](_qx(24)) for _ in range(operands)]
    qxs[-1] = qxs[-1][:, :20] if operands == 4 and groups == 2 else qxs[-1]
    shuffled = F.channel_shuffle(torch.cat([q.int_repr() for q in qxs], 1).float(), groups)
    for chunk, expected in enumerate(shuffled.chunk(chunks, 1)):
        for table in (None, TABLE):
            got = torch.ops.cpuaccel.shuffle_channels(qxs, groups, chunks, chunk, table, 0.3, 7)
            codes = expected.to(torch.uint8)
            assert torch.equal(got.int_repr(), codes if table is None else TABLE[codes.long()])
            assert got.q_scale() == (0.05 if table is None else 0.3)


def test_operands_of_other_quantizers_are_requantized_as_by_cat() -> None:
    qxs = [_qx(), _qx(scale=0.08, zero_point=90)]
    expected = F.channel_shuffle(torch.cat(qxs, 1).int_repr().float(), 2)
    got = torch.ops.cpuaccel.shuffle_channels(qxs, 2, 1, 0, None, 1.0, 0)
    assert torch.equal(got.int_repr().float(), expected)


def test_squeeze_excite_of_one_pixel() -> None:
    """If the image is one pixel, the broadcast operand has the full shape."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = conv(source=3), conv(kernel=1)
            self.reduce, self.expand = conv(4, kernel=1), conv(source=4, kernel=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(squeeze_excite(F.relu(self.first(x)), self.reduce, self.expand))

    with torch.no_grad(), running("auto"):
        model = quantized(Small, image(side=1))
        fused = cpuaccel.quant.fuse(model)
        assert fused_ops(fused)["conv2d + sigmoid + mul"] == 1
        for side in (1, 2, 7):
            x = image(5, side=side)
            assert torch.equal(fused(x), model(x))

"""CUDA beside cpuaccel: tensors, pinned memory, autocast, compiled code and PyG on a GPU.

cpuaccel overrides CPU kernels, torch's CPU allocator and some functions of torch's Python code.
What runs on a GPU must be as without it.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cpuaccel

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch.cuda.is_available() is False: there is no GPU"
)

DEVICE = "cuda"
LARGE = 1 << 20
"""Elements of a float tensor that cpuaccel's allocator caches."""


class Net(nn.Module):
    """A convolution, a pool, attention and linear layers: ops that are overridden on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.linear = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = self.pool(nn.functional.silu(self.conv(images))).flatten(2).transpose(1, 2)
        attended, _ = self.attention(rows, rows, rows, need_weights=False)
        return self.linear(attended).mean(1)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().to(DEVICE)


@pytest.fixture
def images() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(4, 3, 16, 16).to(DEVICE)


def _results(net: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """The outputs and the gradients of one training step."""
    net = copy.deepcopy(net)
    loss = net(images).float().square().mean()
    loss.backward()
    return [loss.detach(), *(weight.grad for weight in net.parameters() if weight.grad is not None)]


def _assert_same_as_without(
    net: nn.Module, images: torch.Tensor, rtol: float = 1e-3, atol: float = 1e-5
) -> None:
    """Compared with tolerances: the kernels of a GPU may add in another order each time."""
    found = _results(net, images)
    with cpuaccel.enabled(False):
        expected = _results(net, images)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def test_a_training_step(net: Net, images: torch.Tensor) -> None:
    _assert_same_as_without(net, images)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(net: Net, images: torch.Tensor, dtype: torch.dtype) -> None:
    with torch.autocast(DEVICE, dtype):
        assert net(images).dtype == dtype
        _assert_same_as_without(net, images, rtol=3e-2, atol=1e-3)


def test_cpu_autocast_leaves_the_gpu_alone(net: Net, images: torch.Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert net(images).dtype == torch.float32
        _assert_same_as_without(net, images)


def test_compiled(net: Net, images: torch.Tensor) -> None:
    net.eval()
    with torch.no_grad():
        found = torch.compile(net)(images)
        torch.testing.assert_close(found, net(images), rtol=1e-3, atol=1e-4)


def test_the_backend_leaves_graphs_on_a_gpu_to_inductor(net: Net, images: torch.Tensor) -> None:
    net.eval()
    with torch.no_grad():
        found = torch.compile(net, backend="cpuaccel")(images)
        torch.testing.assert_close(found, net(images), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("elements", [16, LARGE])
def test_copies_between_cpu_and_gpu(elements: int) -> None:
    src = torch.arange(elements, dtype=torch.float32)
    there = src.to(DEVICE)
    assert torch.equal(there.cpu(), src)
    assert torch.equal((there + 1).to("cpu"), src + 1)
    back = torch.empty_like(src)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, src)


def test_pinned_memory_is_torchs() -> None:
    """cpuaccel's allocator is for pageable memory. Freed pinned blocks must not become pageable."""
    for _ in range(3):
        pinned = torch.empty(LARGE, pin_memory=True)
        assert pinned.is_pinned()
        pinned.fill_(3)
        there = pinned.to(DEVICE, non_blocking=True)
        torch.cuda.synchronize()
        assert there.sum().item() == 3 * LARGE
        plain = torch.ones(LARGE)
        assert not plain.is_pinned()
        assert plain.pin_memory().is_pinned()
        del pinned, plain


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_that_pins(workers: int) -> None:
    data = TensorDataset(torch.arange(64.0).reshape(16, 4), torch.arange(16))
    loader = DataLoader(data, batch_size=4, num_workers=workers, pin_memory=True)
    rows = []
    for values, _ in loader:
        assert values.is_pinned()
        rows.append(values.to(DEVICE, non_blocking=True))
    torch.cuda.synchronize()
    assert torch.equal(torch.cat(rows).cpu(), data.tensors[0])


def test_indices_on_a_gpu() -> None:
    torch.manual_seed(0)
    index = torch.randint(0, 50, (400,), device=DEVICE)
    rows = torch.randn(400, 8, device=DEVICE)

    def computed() -> list[torch.Tensor]:
        sums = torch.zeros(50, 8, device=DEVICE).index_add(0, index, rows)
        wide = index[:, None].expand_as(rows)
        largest = torch.zeros(50, 8, device=DEVICE).scatter_reduce(0, wide, rows, "amax")
        return [sums, largest, rows.index_select(0, index), rows.gather(0, wide)]

    found = computed()
    with cpuaccel.enabled(False):
        expected = computed()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_pyg_on_a_gpu() -> None:
    pyg = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    torch.manual_seed(0)
    edges = torch.randint(0, 30, (2, 200))
    features = torch.randn(30, 8)
    model = pyg.GraphSAGE(8, 16, num_layers=2, out_channels=4)
    expected = model(features, edges)
    cpuaccel.gnn.accelerate(model)
    there = copy.deepcopy(model).to(DEVICE)
    found = there(features.to(DEVICE), edges.to(DEVICE))
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-4)
    found.sum().backward()
    assert all(weight.grad is not None for weight in there.parameters())


def test_a_model_moves_to_the_gpu_and_back(net: Net, images: torch.Tensor) -> None:
    expected = net(images)
    found = net.cpu()(images.cpu())
    torch.testing.assert_close(found, expected.cpu(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(net.to(DEVICE)(images), expected, rtol=1e-3, atol=1e-4)


def test_layers_with_packed_weights_move_to_the_gpu(net: Net, images: torch.Tensor) -> None:
    net.eval()
    expected = net(images)
    packed = cpuaccel.prepack(copy.deepcopy(net).cpu())
    with torch.no_grad():
        packed(images.cpu())
        torch.testing.assert_close(packed.to(DEVICE)(images), expected, rtol=1e-3, atol=1e-4)


def test_optimize_asks_for_inputs_on_the_cpu(net: Net, images: torch.Tensor) -> None:
    with torch.no_grad(), pytest.raises(ValueError, match="cuda"):
        cpuaccel.optimize(net.eval(), (images,))


def test_cuda_autocast_leaves_the_cpu_alone(net: Net, images: torch.Tensor) -> None:
    net, images = net.cpu().eval(), images.cpu()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        found = net(images)
    assert found.dtype == torch.float32
    assert torch.equal(found, net(images))


def test_a_cuda_graph(net: Net, images: torch.Tensor) -> None:
    """A capture fails if anything in it waits for the GPU."""
    net.eval()
    stream = torch.cuda.Stream()
    with torch.no_grad():
        expected = net(images)
        with torch.cuda.stream(stream):
            net(images)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            found = net(images)
        graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_function_transforms(net: Net, images: torch.Tensor) -> None:
    weights = {name: each.detach() for name, each in net.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(net, weights, (image[None],)).square().mean()

    def computed() -> list[torch.Tensor]:
        grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, images)
        linear = net.linear.weight.detach()
        _, tangent = torch.func.jvp(lambda w: (w @ w.T).relu().sum(), (linear,), (linear,))
        return [*grads.values(), tangent]

    found = computed()
    with cpuaccel.enabled(False):
        expected = computed()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_sparse_products() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(40, 30).relu().to(DEVICE)
    dense = torch.randn(30, 8, device=DEVICE, requires_grad=True)
    for sparse in (matrix.to_sparse_csr(), matrix.to_sparse_coo()):
        found = torch.sparse.mm(sparse, dense)
        torch.testing.assert_close(found, matrix @ dense, rtol=1e-4, atol=1e-4)
        (grad,) = torch.autograd.grad(found.sum(), dense)
        torch.testing.assert_close(grad, matrix.T @ torch.ones_like(found), rtol=1e-4, atol=1e-4)


def test_int8_products() -> None:
    torch.manual_seed(0)
    left, right = (
        torch.randint(-128, 128, sizes, dtype=torch.int8) for sizes in ((32, 64), (64, 16))
    )
    found = torch._int_mm(left.to(DEVICE), right.to(DEVICE))
    assert torch.equal(found.cpu(), torch._int_mm(left, right))


@pytest.mark.parametrize(
    "config",
    ["Int8DynamicActivationInt8WeightConfig", "Int8WeightOnlyConfig"],
)
def test_torchao_int8_layers(config: str) -> None:
    """cpuaccel's linear stands in torchao's table: tensors on a GPU go on to torchao's."""
    torchao = pytest.importorskip(
        "torchao.quantization", reason="requirements/test.txt has torchao"
    )
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32)), torch.randn(32, 64)
    with torch.no_grad():
        torchao.quantize_(model, getattr(torchao, config)())
        expected = model(x)
        there = copy.deepcopy(model).to(DEVICE)
        found = there(x.to(DEVICE))
        with cpuaccel.enabled(False):
            assert torch.equal(there(x.to(DEVICE)), found)
        torch.testing.assert_close(found.cpu(), expected, rtol=0.02, atol=0.02)
        back = there.cpu()
        torch.testing.assert_close(back(x), expected)

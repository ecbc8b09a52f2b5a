"""GraphSAGE in two processes: the losses of one process, and an error, not a hang, if one dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin

pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

pytestmark = [
    needs_plugin,
    # torch warns about forks of a parent with threads; the loaders fork their workers on purpose.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork"),
]

_PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "distributed" / "ddp_graphsage.py"
_SMALL = [
    *("--scale", "8", "--degree", "12", "--features", "16", "--classes", "5", "--hidden", "16"),
    *("--fan-out", "5,3", "--batch", "24"),
]
_PATIENCE = 100.0
"""Seconds: far more than needed, so that a hang ends."""


def _environment(**more: str) -> dict[str, str]:
    own = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **own, **more}


def _main(*arguments: str) -> list[float]:
    from examples.distributed import ddp_graphsage

    return ddp_graphsage.main([*_SMALL, *arguments])


def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    path = tmp_path / "losses.json"
    torchrun = [*("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")]
    done = subprocess.run(
        [sys.executable, *torchrun, str(_PROGRAM), *_SMALL, "--epochs", "2", "--json", str(path)],
        env=_environment(),
        timeout=_PATIENCE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 2: loss" in done.stdout
    torch.set_num_threads(1)
    losses = _main("--epochs", "2")
    assert len(losses) == 2 * (115 // 24)
    torch.testing.assert_close(json.loads(path.read_text()), losses, rtol=1e-4, atol=1e-4)


def test_losses_fall_and_a_second_run_is_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    losses = _main("--epochs", "6", "--lr", "0.02", "--workers", "2")
    assert sum(losses[-4:]) < 0.7 * sum(losses[:4])
    assert _main("--epochs", "6", "--lr", "0.02", "--workers", "2") == losses
    assert capsys.readouterr().out.count("epoch 6: loss") == 2


@contextmanager
def _processes(*arguments: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts two processes as torchrun would, but without its supervision."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, str(_PROGRAM), *_SMALL, *arguments],
            env=_environment(**group, RANK=str(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # lets its workers be ended with it
        )
        for rank in range(2)
    ]
    try:
        yield started
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_a_killed_process_ends_the_others_with_an_error() -> None:
    with _processes("--epochs", "100000", "--timeout", "60") as (first, second):
        assert first.stdout is not None
        line: Any = first.stdout.readline()
        assert line.startswith("epoch 1: loss"), first.communicate()[1]
        second.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        _, errors = first.communicate(timeout=_PATIENCE)
    assert first.returncode == 1
    assert "rank 0: training stopped, possibly because another process ended: " in errors
    assert "Traceback" not in errors
    # The connection was closed, so nothing waited for the timeout.
    assert time.monotonic() - killed < _PATIENCE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--batch", "1000"), "--batch: expected at most 115.* but got 1000"),
        (("--scale", "1", "--parts", "3"), "--batch: expected at most 0"),
    ],
)
def test_sizes_that_do_not_fit(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        _main(*arguments)


def test_a_part_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit, match="--parts: expected 2, one a process, but got 3"):
        _main("--parts", "3")


def test_parts_are_the_graph() -> None:
    from examples.distributed import ddp_graphsage

    options = ddp_graphsage._parser().parse_args(_SMALL)
    edges, features = {}, {}
    for parts in (1, 3):
        options.parts = parts
        found = []
        for number in range(parts):
            part = ddp_graphsage.make_part(number, options)
            own = len(range(number, 256, parts))
            assert int(part.data.edge_index[1].max()) < own
            assert part.data.num_nodes >= own
            names = _names(part, number, parts)
            found.append(names[part.data.edge_index])
            features[parts, number] = dict(zip(names.tolist(), part.data.x, strict=True))
        edges[parts] = torch.cat(found, 1)
    for pairs in edges.values():
        assert pairs.shape == (2, 12 * 256)
    keys = [(256 * pairs[0] + pairs[1]).sort().values for pairs in edges.values()]
    assert torch.equal(*keys)
    for number in range(3):
        for node, x in features[3, number].items():
            assert torch.equal(x, features[1, 0][node])


def _names(part: Any, number: int, parts: int) -> torch.Tensor:
    """The graph's ids of a part's nodes, found by their features in the whole graph."""
    from examples.distributed import ddp_graphsage

    options = ddp_graphsage._parser().parse_args(_SMALL)
    import numpy as np

    whole = ddp_graphsage._features(np.arange(256), options)
    same = (part.data.x[:, None] == whole[None]).all(2)
    assert bool((same.sum(1) == 1).all())
    names = same.int().argmax(1)
    own = torch.arange(number, 256, parts)
    assert torch.equal(names[: len(own)], own)
    return names

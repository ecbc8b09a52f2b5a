"""The server's model behind Ray Serve, if Ray is installed (nothing else requires it)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("ray.serve", reason="ray[serve] is not installed")

import _served_echo

from examples.serve import clients
from examples.serve.server import listen

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 300.0
_BODY = b'{"numbers": [1, 2, 3, 4]}'


@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: two replicas want two")
@pytest.mark.parametrize("plugin", ["off", "on"])
def test_replicas_answer(plugin: str, tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            *(sys.executable, str(_ROOT / "examples" / "serve" / "ray_replicas.py")),
            *("--model", "_served_echo:Echo", "--form", "quick with plugin", "--plugin", plugin),
            *("--workers", "2", "--threads", "1", "--port", str(port)),
        ],
        # Ray writes a token to the home folder.
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        target = clients.Target.of(json.loads(line)["url"])
        result = clients.run([target], [_BODY], clients.Load(4, 4.0, 1.0))
        assert not result.errors
        expected = torch.tensor([1.0, 2.0, 3.0, 4.0]) @ _served_echo.weights()
        assert result.answers
        for _, body in result.answers:
            reply = {"sums": expected.tolist(), "threads": 1, "plugin": plugin}
            assert json.loads(body) == reply
        assert set(result.workers) == {"0", "1"}
        bad = clients.run([target], [b'{"numbers": [1]}'], clients.Load(1, 2.0, 0.0))
        assert set(bad.errors)
        assert all("400: " in each and "numbers" in each for each in bad.errors)
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0

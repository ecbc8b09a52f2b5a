"""The benchmark of PT2E models, on the smallest one."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="torchao is not installed")

from compile._compiled import needs_onednn

from benchmarks.models import pt2e
from benchmarks.models._torch_peer import Peer


@needs_onednn
def test_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pt2e, "_SECONDS", 0.001)
    columns = "fx,x86quantizer"
    pt2e.main(["--models", "squeezenet1_1", "--columns", columns, "--rounds", "1"])
    printed = capsys.readouterr().out
    assert "squeezenet1_1" in printed
    assert "over fx" in printed


def test_unknown_columns_are_named() -> None:
    with pytest.raises(SystemExit, match="unknown column 'nothing'"):
        pt2e.main(["--columns", "nothing"])


def test_a_peer_that_ends_is_named() -> None:
    with pytest.raises(RuntimeError, match="false ended with code 1"):
        Peer("/bin/false", "benchmarks.models._pt2e", ("torch",), threads=1, clock="cpu")

"""Networks trained on the karate club are as accurate accelerated as without cpuaccel."""

import pytest
from quant._engine import counted, needs_plugin, off

pytest.importorskip("torch_geometric", exc_type=ImportError)

from examples.karate_club import demo, karate

pytestmark = needs_plugin


@pytest.mark.parametrize("layer", karate.LAYERS)
def test_the_same_accuracy(layer: str) -> None:
    from cpuaccel import gnn

    data = karate.club()
    assert data.edge_index.shape == (2, 156)
    with off():
        plain = karate.network(layer, data)
        theirs = karate.train(plain, data)
        expected = karate.right(plain, data)
    fast = gnn.accelerate(karate.network(layer, data))
    with counted() as counts:
        ours = karate.train(fast, data)
    assert not [name for name in counts.fallbacks if name.startswith("gnn.")]
    assert karate.right(fast, data) == expected
    assert expected > len(data.y) / 2
    assert ours[-1] < ours[0]
    assert ours[-1] == pytest.approx(theirs[-1], rel=0.05, abs=1e-3)


def test_the_demo_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(karate, "EPOCHS", 30)
    monkeypatch.setattr(karate, "LAYERS", ("GCN",))
    demo.main()
    out = capsys.readouterr().out
    assert "GCN" in out
    assert "message passing fused" in out

"""Trains networks on Zachary's karate club, without cpuaccel and accelerated by it.

Ends with an error if the two do not classify the same number of people correctly. Needs
`pip install torch_geometric`, and downloads nothing; run as `python examples/karate_club/demo.py`.
"""

import sys
from pathlib import Path

from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plugin
from examples.karate_club import karate


def main() -> None:
    """Runs the demo."""
    reason = _plugin.missing()
    if reason:
        raise SystemExit(f"cpuaccel did not run: {reason}")
    import cpuaccel
    from cpuaccel import gnn

    console = _machine.console()
    data = karate.club()
    table = Table(title=f"{len(data.y)} people, {karate.EPOCHS} epochs", title_justify="left")
    table.add_column("layers")
    for heading in ("right, torch", "right, cpuaccel", "last loss, torch", "last loss, cpuaccel"):
        table.add_column(heading, justify="right")
    different = []
    for layer in karate.LAYERS:
        with _plugin.enabled(False):
            plain = karate.network(layer, data)
            plain_result = karate.train(plain, data)[-1], karate.right(plain, data)
        fast = gnn.accelerate(karate.network(layer, data))
        fast_result = karate.train(fast, data)[-1], karate.right(fast, data)
        table.add_row(
            layer,
            *map(str, (plain_result[1], fast_result[1])),
            f"{plain_result[0]:.6f}",
            f"{fast_result[0]:.6f}",
        )
        if plain_result[1] != fast_result[1]:
            different.append(layer)
    console.print(table)
    console.print(str(cpuaccel.explain(fast)), highlight=False)
    if different:
        raise SystemExit(f"the accuracy differs from that of torch alone: {', '.join(different)}")


if __name__ == "__main__":
    main()

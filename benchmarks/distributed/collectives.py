"""Times gloo's collectives, and predicts tensor parallelism on 2 to 16 sockets.

The first table has measured times between two processes of this machine. A model of a link (latency
and bandwidth) is fitted to all_reduce; `--latency` and `--bandwidth` give another link. For the
second table this machine runs one socket's share of each layer, with `--threads` threads, as a plan
of cpuaccel, and the model adds the collectives. So each socket is as fast as this process, and
sockets share nothing but their links.
"""

import argparse

import torch
from rich.table import Table

from benchmarks import _machine
from benchmarks._arguments import (
    add_threads,
    make_parser,
    names,
    positive,
    positives,
    require_known,
)
from benchmarks.distributed import _gloo, _shares
from benchmarks.distributed._cost_model import ALL_REDUCE, FORMULAS, Link, fitted


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints both tables."""
    options = _parser().parse_args(arguments)
    require_known(options.models, _shares.MODELS, "model")
    torch.set_num_threads(options.threads)
    models = [_shares.MODELS[name] for name in options.models]
    console = _machine.console()
    for name, fact in _machine.describe().items():
        console.print(f"{name}: {fact}")
    sizes = sorted({model.message for model in models} | {1 << 12, 1 << 20, 1 << 24})
    measured = _gloo.seconds(sizes, options.rounds)
    link = _link(options, sizes, measured["all_reduce"])
    console.print(_collectives(sizes, measured, link))
    for line in FORMULAS:
        console.print(line)
    console.print(f"a = {link.latency * 1e6:.1f} us, b = {link.bandwidth / 1e9:.2f} GB/s")
    console.print(_predictions(models, options, link))


def _link(options: argparse.Namespace, sizes: list[int], seconds: list[float]) -> Link:
    measured = fitted([float(size) for size in sizes], seconds)
    latency = measured.latency if options.latency is None else options.latency * 1e-6
    bandwidth = measured.bandwidth if options.bandwidth is None else options.bandwidth * 1e9
    return Link(latency, bandwidth)


def _collectives(sizes: list[int], measured: dict[str, list[float]], link: Link) -> Table:
    table = Table(title="two processes, gloo, microseconds of the fastest round")
    for name in ("KiB", *measured, "all_reduce by the model"):
        table.add_column(name, justify="right")
    for i, size in enumerate(sizes):
        times = (each[i] for each in measured.values())
        modeled = link.ring_all_reduce(_gloo.WORLD, size)
        table.add_row(f"{size / 1024:g}", *(f"{each * 1e6:.0f}" for each in (*times, modeled)))
    return table


def _predictions(models: list[_shares.Model], options: argparse.Namespace, link: Link) -> Table:
    table = Table(title="predicted: a layer of a model among sockets")
    for name in ("model", "sockets", "share us", "all_reduce us", "by", "speedup", "calls/s"):
        table.add_column(name, justify="left" if name in ("model", "by") else "right")
    for model in models:
        shares = _shares.seconds_of_a_layer(model, [1, *options.sockets], options.rounds)
        for sockets, share in shares.items():
            name, reduced = min(
                ((name, cost(link, sockets, model.message)) for name, cost in ALL_REDUCE.items()),
                key=lambda each: each[1],
            )
            reduced *= 2 * (sockets > 1)
            layer = share + reduced
            table.add_row(
                model.name,
                str(sockets),
                f"{share * 1e6:.0f}",
                f"{reduced * 1e6:.0f}",
                name if sockets > 1 else "",
                f"{shares[1] / layer:.2f}",
                f"{1 / (layer * model.layers):.1f}",
            )
    return table


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    models = ",".join(name for name in _shares.MODELS if not name.startswith("tiny"))
    parser.add_argument("--models", type=names, default=names(models), help=f"default: {models}")
    parser.add_argument(
        "--sockets", type=positives, default=[2, 4, 8, 16], help="default: 2,4,8,16"
    )
    parser.add_argument("--rounds", type=positive, default=20, help="rounds (default: 20)")
    parser.add_argument("--latency", type=float, help="us of a message (default: measured)")
    parser.add_argument("--bandwidth", type=float, help="GB/s of a link (default: measured)")
    add_threads(parser, 1)
    return parser


if __name__ == "__main__":
    main()

"""Times models with float32 weights: torch, cpuaccel and other runtimes.

They run in fp32, under bf16 autocast, or with float32 products in bf16 arithmetic (`--mode`). All
columns share the same random weights; the JSON file has the error of each against torch's fp32.
Peers are measured if they are installed (`requirements/peers.txt`).
"""

import argparse

from benchmarks._arguments import (
    add_batch,
    add_json,
    add_names,
    add_plot,
    add_rounds,
    add_threads,
    make_parser,
)
from benchmarks.models import _float_models
from benchmarks.models._float_columns import NAMES, RATIOS, columns
from benchmarks.models._job import Job
from benchmarks.models._modes import MODES, add_mode, mode
from benchmarks.models._run import run


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    run(
        f"models in {options.mode}, median latency",
        columns(mode(options.mode)),
        RATIOS,
        lambda name: _job(name, options),
        options,
        facts={"tokens per text": str(options.sequence)},
    )


def _job(name: str, options: argparse.Namespace) -> Job:
    x = _float_models.inputs(name, options.batch, options.sequence)
    return Job(_float_models.build(name), [], x)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _float_models.add_models(parser, _float_models.ALL)
    add_mode(parser, [each.name for each in MODES])
    add_names(parser, "--engines", NAMES, "engine")
    add_threads(parser)
    add_batch(parser, 1, "images or texts")
    _float_models.add_sequence(parser)
    add_rounds(parser, rounds=20, budget=20.0, of="a model")
    add_json(parser)
    add_plot(parser)
    return parser


if __name__ == "__main__":
    main()

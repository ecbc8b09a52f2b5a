"""Times int8 torchvision models: torch's engines, cpuaccel and other runtimes.

torch's engines and cpuaccel get the same integers: one calibration under x86's default qconfig
mapping, then one convert_fx per engine. Peers are measured if they are installed
(`pip install -r requirements/peers.txt`); they quantize the same fp32 model themselves, on the same
images.
"""

import argparse

from benchmarks._arguments import (
    add_batch,
    add_checked_names,
    add_json,
    add_names,
    add_plot,
    add_rounds,
    add_threads,
    make_parser,
)
from benchmarks._torchvision import MODELS, build, images, input_size
from benchmarks.models._columns import COLUMNS, RATIOS
from benchmarks.models._job import Job
from benchmarks.models._run import run

_SAME = "int8 columns of torch hold the same integers: one calibration, x86 qconfig mapping"
_CALIBRATION_SEEDS = (101, 102)
_CALIBRATION_BATCH = 2


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    run(
        "int8 models, median latency",
        COLUMNS,
        RATIOS,
        lambda name: _job(name, options.batch),
        options,
        notes=[_SAME],
    )


def _job(name: str, batch: int) -> Job:
    calibration = [images(name, _CALIBRATION_BATCH, seed=seed) for seed in _CALIBRATION_SEEDS]
    return Job(build(name), calibration, images(name, batch))


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    all_models = [model.name for model in MODELS]
    add_checked_names(
        parser,
        "--models",
        input_size,
        default=all_models,
        help=f"names from {','.join(all_models)} (default: all)",
    )
    add_names(parser, "--engines", [column.name for column in COLUMNS], "engine")
    add_threads(parser)
    add_batch(parser, 1, "images")
    add_rounds(parser, rounds=20, budget=20.0, of="a model")
    add_json(parser)
    add_plot(parser)
    return parser


if __name__ == "__main__":
    main()

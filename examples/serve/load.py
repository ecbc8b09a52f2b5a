"""Puts load on a server: each client sends its next request when it has the answer to the last one.

    python examples/serve/load.py --clients 4 --seconds 5 http://127.0.0.1:8080/embed

Several addresses are used in turn; if one does not answer, the next one is asked. Prints requests
per second, percentiles of the latency, and how close each answer is to torch's own fp32.
"""

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine
from benchmarks._arguments import positive


def main(arguments: list[str] | None = None) -> None:
    """Loads the servers; ends with an error if an answer is wrong or missing."""
    options = _parser().parse_args(arguments)
    from examples.serve import answers, clients, report

    try:
        targets = [clients.Target.of(each) for each in options.url]
    except ValueError as error:
        raise SystemExit(f"load: {error}") from None
    load = clients.Load(options.clients, options.seconds, options.warm, not options.keep_alive)
    result = clients.run(targets, answers.bodies(), load)
    row = report.Row("", report.figures(result), answers.least_cosine(result.answers))
    console = _machine.console()
    console.print(report.table([row], f"{options.clients} clients, {options.seconds:g} s"))
    for line in report.troubles(result):
        console.print(line)
    if result.errors or row.least_cosine < options.least_cosine:
        raise SystemExit("load: answers are missing, or too far from fp32")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", nargs="+", help="address, such as http://127.0.0.1:8080/embed")
    parser.add_argument("--clients", type=positive, default=4, help="clients (default: 4)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="seconds to measure (default: 5)"
    )
    parser.add_argument(
        "--warm",
        type=float,
        default=1.0,
        help="seconds of load before the measurement (default: 1)",
    )
    parser.add_argument("--keep-alive", action="store_true", help="one connection per client")
    parser.add_argument(
        "--least-cosine",
        type=float,
        default=0.98,
        help="lowest accepted cosine similarity of an answer to fp32 (default: 0.98)",
    )
    return parser


if __name__ == "__main__":
    main()

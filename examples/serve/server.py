"""Serves a model from several processes that share its weights, each on its own cores.

    python examples/serve/server.py --workers 2 --threads 1 --form int8 --port 8080
    curl -d '{"text": "Which tram goes to the harbor?"}' http://127.0.0.1:8080/embed

Prints a line of JSON when all workers are ready, and whenever a worker had to be restarted. On
SIGTERM it answers the requests in flight and ends.
"""

import argparse
import os
import socket
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))


def main(arguments: list[str] | None = None) -> int:
    """Serves according to `arguments`; returns the exit code."""
    options = parser().parse_args(arguments)
    os.environ.update(environment(options.plugin))
    import torch

    from examples.serve import cores, servable, supervisor, worker

    torch.set_num_threads(1)  # in the parent; workers set their own
    try:
        shares = cores.partition(cores.usable(), options.workers, options.threads)
        model = servable.make(options.model, options.form)
        listening = listen(options.host, options.port)
    except (ValueError, OSError) as error:
        raise SystemExit(f"serve: {error}") from error
    limits = worker.Limits(options.queue, options.grace)
    return supervisor.Supervisor(model, listening, shares, limits).run()


def environment(plugin: str) -> dict[str, str]:
    """Environment variables to set before torch is loaded.

    They allow one thread until a worker sets its own number, and enable or disable cpuaccel.
    """
    return {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Threads that spin while they wait would take the core that the event loop needs.
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
        "TOKENIZERS_PARALLELISM": "false",
        "CPUACCEL": {"on": "1", "off": "0"}[plugin],
    }


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `host`:`port`; port 0 picks a free one.

    Raises:
        OSError: the port is in use, or the address is not one of this machine.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise OSError(f"--host {host} --port {port}: {error}") from error
    listening.listen()
    return listening


def parser() -> argparse.ArgumentParser:
    """The arguments; replica.py shares all but the number of workers."""
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    found.add_argument("--workers", type=int, default=2, help="worker processes (default: 2)")
    found.add_argument("--threads", type=int, default=1, help="cores per worker (default: 1)")
    add_common(found)
    return found


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {value}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, got {text}")
    return value


def add_common(found: argparse.ArgumentParser) -> None:
    """Adds the options of a server that do not depend on how its processes are started."""
    found.add_argument(
        "--model",
        default="examples.serve.sentences:Sentences",
        metavar="MODULE:CLASS",
        help="class of the model (default: %(default)s)",
    )
    found.add_argument(
        "--form", default="prepacked", help="form of the model (default: %(default)s)"
    )
    found.add_argument(
        "--plugin", choices=("on", "off"), default="on", help="cpuaccel on or off (default: on)"
    )
    found.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    found.add_argument(
        "--port", type=int, default=8080, help="port; 0 chooses a free one (default: %(default)s)"
    )
    found.add_argument(
        "--queue",
        type=_not_negative,
        default=16,
        help="requests that may wait for a worker; more get status 503 (default: %(default)s)",
    )
    found.add_argument(
        "--grace",
        type=_seconds,
        default=20.0,
        help="seconds to finish requests in flight after SIGTERM (default: %(default)s)",
    )


if __name__ == "__main__":
    sys.exit(main())

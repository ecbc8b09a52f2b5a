"""Serves the model on one or more machines: torchrun starts replicas, each on its own port.

    torchrun --standalone --nproc-per-node 2 examples/serve/replica.py --port 8080
    python examples/serve/load.py http://127.0.0.1:8080/embed http://127.0.0.1:8081/embed

On each of two machines, with torchrun's own options for where they meet:

    torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint FIRST:29400 \
      examples/serve/replica.py --host 0.0.0.0 --advertise "$(hostname)" --port 8080

A replica gets its share of its machine's cores and the port PORT + its number on that machine. When
all are ready, the first one prints their addresses. After that they do not communicate.
"""

import argparse
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.serve import server


def main(arguments: list[str] | None = None) -> None:
    """Serves according to `arguments` and torchrun's environment, until SIGTERM."""
    options = _parser().parse_args(arguments)
    absent = [name for name in _TORCHRUN if name not in os.environ]
    if absent:
        raise SystemExit(f"replica: expected to be started by torchrun, which sets {absent[0]}")
    rank, here, beside = (int(os.environ[name]) for name in _TORCHRUN)
    os.environ.update(server.environment(options.plugin))
    import torch
    import torch.distributed as dist

    from examples.serve import cores, servable, worker

    torch.set_num_threads(1)  # while weights are read; the model's thread sets its own
    usable = cores.usable()
    try:
        share = cores.partition(usable, beside, options.threads or max(1, len(usable) // beside))
        model = servable.make(options.model, options.form)
        listening = server.listen(options.host, options.port and options.port + here)
    except (ValueError, OSError) as error:
        raise SystemExit(f"replica {rank}: {error}") from error
    port = listening.getsockname()[1]
    url = f"http://{options.advertise or options.host}:{port}{model.route}"
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.patience))

    def when_ready() -> None:
        urls: list[str] = [""] * dist.get_world_size()
        dist.all_gather_object(urls, url)
        dist.destroy_process_group()
        if rank == 0:
            print(json.dumps({"event": "ready", "urls": urls}), flush=True)

    model.prepare()
    limits = worker.Limits(options.queue, options.grace)
    worker.run(model, listening, share[here], limits, number=rank, when_ready=when_ready)


_TORCHRUN = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--threads", type=int, help="cores per replica (default: an equal share of the machine's)"
    )
    parser.add_argument(
        "--advertise", metavar="NAME", help="host name that clients use (default: --host)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=300.0,
        help="seconds to wait for other replicas (default: 300)",
    )
    server.add_common(parser)
    return parser


if __name__ == "__main__":
    main()

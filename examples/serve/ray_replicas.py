"""Serves the model on one or more machines as replicas of Ray Serve.

    pip install "ray[serve]==2.60.0"
    python examples/serve/ray_replicas.py --workers 2 --threads 1 --port 8080

By default it starts Ray on this machine. `--address auto` joins a cluster that `ray start` made;
its machines need the same checkout at the same path. Ray's proxy accepts a request, chooses a
replica and rejects requests that would wait too long. Each replica has its own weights. Name files
in `--form` by absolute paths. Stops at SIGTERM or SIGINT.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.serve import server


def _root() -> str:
    return str(Path(__file__).resolve().parents[2])


class Replica:
    """A Ray process with the model, on its own cores among the replicas of its machine."""

    def __init__(self, root: str, model: str, form: str, threads: int, waiting: int) -> None:
        if root not in sys.path:
            sys.path.append(root)
        from ray import serve

        from examples.serve import cores, servable
        from examples.serve.desk import Desk

        rank = serve.get_replica_context().rank
        usable = cores.usable()
        shares = cores.partition(usable, len(usable) // threads, threads)
        self._rank, self._cores = rank.rank, shares[rank.local_rank % len(shares)]
        self._desk = Desk(servable.make(model, form), threads, waiting)
        self._desk.servable.prepare()
        self._desk.warm().result()

    async def __call__(self, request: Any) -> Any:
        """Answers a starlette request."""
        from starlette.responses import JSONResponse

        headers = {"X-Worker": str(self._rank)}
        if request.method != "POST":
            error = {"error": f"method: expected POST, got {request.method}"}
            return JSONResponse(error, 405, headers={**headers, "Allow": "POST"})
        reply = await self._desk.reply(await request.body())
        return JSONResponse(reply.body, reply.status, headers={**headers, **reply.headers})


def main(arguments: list[str] | None = None) -> None:
    """Serves according to `arguments`."""
    parser = server.parser()
    parser.add_argument(
        "--address", help="address of a cluster, or auto (default: start Ray on this machine)"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.update(server.environment(options.plugin))
    import ray
    from ray import serve

    from examples.serve import servable

    try:
        model = servable.make(options.model, options.form)
    except ValueError as error:
        raise SystemExit(f"ray_replicas: {error}") from error
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    # Ray's workers look in this folder first, and a checkout has a `cpuaccel` without the compiled
    # module.
    os.chdir(Path(__file__).parent)
    ray.init(address=options.address, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": options.host, "port": options.port})
    deployment = serve.deployment(
        Replica,
        num_replicas=options.workers,
        max_ongoing_requests=1 + options.queue,
        max_queued_requests=options.queue,
        graceful_shutdown_timeout_s=options.grace,
        ray_actor_options={
            "num_cpus": options.threads,
            "runtime_env": {"env_vars": server.environment(options.plugin)},
        },
    )
    bound = deployment.bind(_root(), options.model, options.form, options.threads, options.queue)
    serve.run(bound, route_prefix=model.route)
    url = f"http://{options.host}:{options.port}{model.route}"
    print(json.dumps({"event": "ready", "url": url}), flush=True)
    signal.sigwait(_STOP)
    serve.shutdown()
    ray.shutdown()


_STOP = (signal.SIGTERM, signal.SIGINT)

if __name__ == "__main__":
    main()

"""Times the first prompt and the first token of decoders that run by plans, in new processes.

`cold` has an empty capture cache, and makes the captures; `warm` is the next process, which takes
them from disk. Both run `torch.compile(model, backend="cpuaccel")`, or with `--through optimize`
what `cpuaccel.optimize(model)` returns. With `--packed`, `cpuaccel.quant.pack_torchao` has packed
the weights of torchao's formats before. Building the model is not timed. Wall time and the CPU time
of all threads are printed; other work on the machine disturbs the CPU time less. `later` is a
prompt of another length and the second token. Notes say how much resident memory the process has
gained since its imports, after these calls, beside the bytes of packed weights and of the cache.
Weights are random.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import tempfile
from typing import Any

import torch

from benchmarks import _machine, _plugin
from benchmarks._arguments import (
    add_checked_names,
    add_json,
    add_names,
    add_processes,
    add_threads,
    check_known,
    make_parser,
    positive,
)
from benchmarks._quantize import quiet
from benchmarks._report import Row
from benchmarks._timing import Sample
from benchmarks.models import _decoders
from benchmarks.models._process import (
    CLOCKS,
    Clock,
    add_inside,
    reports_by_clock,
    result_of,
    show,
)

STATES = ("cold", "warm")
CALLS = ("prompt", "token", "later prompt", "later token")
_THROUGH = ("compile", "optimize")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.inside:
        print(json.dumps(_calls(options)))
        return
    if reason := _decoders.missing() or _plugin.missing():
        raise SystemExit(reason)
    reports = reports_by_clock("calls of decoders in a new process", STATES, [])
    for model, name in itertools.product(options.models, options.formats):
        found = _measured(model, name, options)
        for clock, call in itertools.product(CLOCKS, CALLS):
            samples = {
                state: Sample(tuple(run[call][clock] for run in runs))
                for state, runs in found.items()
            }
            reports[clock].rows.append(Row(f"{model} {name}, {call}", samples))
        for title, key in (("captures from disk", "from disk"), ("MB of memory", "resident")):
            medians = {
                state: statistics.median(run[key] for run in runs) for state, runs in found.items()
            }
            each = ", ".join(f"{state} {median:.0f}" for state, median in medians.items())
            reports["cpu"].notes.append(f"{model} {name}: {title}: {each}")
        least = found[STATES[0]][0]["least"]
        reports["cpu"].notes.append(f"{model} {name}: MB of packed weights and cache: {least:.0f}")
    show(reports, options.json)


def _measured(model: str, name: str, options: argparse.Namespace) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {state: [] for state in STATES}
    more = ["--formats", name, "--prompt", str(options.prompt), "--through", options.through]
    more += ["--layers", str(options.layers)] if options.layers else []
    more += ["--packed"] if options.packed else []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                "CPUACCEL_CAPTURE_CACHE": folder,
                "CPUACCEL_CAPTURE_CACHE_MIB": "256",
                "XDG_CACHE_HOME": folder,  # of the tuning cache
            }
            for state in STATES:
                module = "benchmarks.models.decoder_first_calls"
                threads = options.threads
                found[state].append(result_of(module, state, model, threads, environment, *more))
    return found


# What runs in the process


def _calls(options: argparse.Namespace) -> dict[str, Any]:
    """Return the times of calls, by what they compute."""
    import cpuaccel

    _decoders.build("tiny")  # imports the rest of transformers
    before_all = _machine.resident()
    built = _decoders.build(options.models[0], options.layers)
    model = _decoders.in_format(built, options.formats[0])
    least = _weight_bytes(model, options.formats[0])
    if options.packed:
        model = cpuaccel.quant.pack_torchao(model)
    with quiet(), torch.no_grad():
        fast: Any = (
            cpuaccel.optimize(model)
            if options.through == "optimize"
            else torch.compile(model, backend="cpuaccel")
        )
        torch.manual_seed(0)
        prompt = torch.randint(2, 100, (1, options.prompt))
        token = prompt[:, :1].contiguous()
        found: dict[str, Any] = {}
        for before in ("", "later "):
            clock = Clock()
            output = fast(prompt, use_cache=True, logits_to_keep=1)
            found[f"{before}prompt"] = clock.read()
            clock = Clock()
            fast(token, past_key_values=output.past_key_values)
            found[f"{before}token"] = clock.read()
            prompt = prompt[:, 1:].contiguous()
    gc.collect()
    cpuaccel.memory.empty_cache()
    footer = cpuaccel.explain(_with_plans(fast)).footer
    return {
        **found,
        "from disk": sum("from the cache on disk" in line for line in footer),
        "resident": _machine.resident() - before_all,
        "least": (least + _decoders.cache_bytes(output.past_key_values)) / 1e6,
    }


def _weight_bytes(model: Any, name: str) -> int:
    """Return the bytes of packed weights, and of the table of embeddings."""
    table = model.get_input_embeddings().weight
    is_shared = model.get_output_embeddings().weight is table
    of_table = 0 if is_shared else table.numel() * table.element_size()
    return _decoders.weight_bytes(model, name) + of_table


def _with_plans(fast: Any) -> Any:
    """Return the object whose plans `explain` shows."""
    generate = vars(fast).get("generate")
    return fast if generate is None else generate.__self__


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_checked_names(
        parser,
        "--models",
        lambda name: check_known([name], _decoders.CONFIGS, "model"),
        default=["qwen2.5-0.5b"],
        help=f"names from {','.join(_decoders.CONFIGS)} (default: qwen2.5-0.5b)",
    )
    add_names(parser, "--formats", _decoders.FORMATS, "format")
    parser.set_defaults(formats=["bf16", "a8w8"])
    parser.add_argument("--layers", type=positive, help="layers of each model (default: its own)")
    parser.add_argument("--prompt", type=positive, default=512, help="tokens of the prompt (512)")
    parser.add_argument("--through", choices=_THROUGH, default="compile", help="(compile)")
    parser.add_argument("--packed", action="store_true", help="call pack_torchao before")
    add_threads(parser)
    add_processes(parser, 1)
    add_json(parser)
    add_inside(parser, STATES)
    return parser


if __name__ == "__main__":
    main()

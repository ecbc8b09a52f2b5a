"""Runs in a separate process: `python -m quant._child COMMAND FOLDER KIND:FORM...`, in tests.

build   makes, runs and saves models
load    loads and runs them
Both write the models' outputs to the folder, and print cpuaccel's counters as JSON.
"""

import json
import sys
from pathlib import Path

import torch

from quant import _models as m


def paths(folder: Path, kind: str, form: str) -> tuple[str, str]:
    """The paths of a saved model and of its result."""
    return str(folder / f"{kind}-{form}.model"), str(folder / f"{kind}-{form}.output")


def save(model: torch.nn.Module, x: torch.Tensor, path: str, form: str) -> None:
    """Saves the whole module by pickle, its state, or TorchScript."""
    if form == "module":
        torch.save(model, path)
    elif form == "state":
        torch.save(model.state_dict(), path)
    else:
        torch.jit.save(torch.jit.script(model), path)


def load(path: str, kind: str, form: str) -> torch.nn.Module:
    if form == "module":
        return torch.load(path, weights_only=False)
    if form == "state":
        model, _ = m.build(kind)
        model.load_state_dict(torch.load(path, weights_only=False))
        return model
    return torch.jit.load(path)


def counters() -> dict:
    """cpuaccel's counters; empty if it is not loaded or disabled."""
    try:
        import cpuaccel
    except ImportError:
        return {}
    return {"enabled": cpuaccel.is_enabled(), **cpuaccel.stats()}


def run(command: str, folder: Path, kind: str, form: str) -> None:
    model_path, output_path = paths(folder, kind, form)
    torch.manual_seed(1)
    model, x = m.build(kind)
    if command == "build":
        save(model, x, model_path, form)
    else:
        model = load(model_path, kind, form)
    with torch.no_grad():
        torch.save(m.first(model(x)), output_path)


def main(command: str, folder: str, *cases: str) -> None:
    torch.backends.quantized.engine = "x86"
    torch.set_num_threads(1)
    for case in cases:
        kind, form = case.split(":")
        run(command, Path(folder), kind, form)
    print(json.dumps(counters()))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs in a process of its own: `python -m quant._child COMMAND ARGUMENTS`, in the folder tests.

build KIND MODEL OUTPUT FORMAT   makes, runs and saves a model
load MODEL INPUT OUTPUT FORMAT   loads and runs one; prints the plugin's counters as JSON
"""

import json
import sys

import torch

from quant import _models as m


def save(model: torch.nn.Module, x: torch.Tensor, path: str, form: str) -> None:
    """The whole module by pickle, its state, or TorchScript."""
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
    """The plugin's, or nothing where it is not loaded or off."""
    try:
        import cpuaccel
    except ImportError:
        return {}
    return {"enabled": cpuaccel.is_enabled(), **cpuaccel.stats()}


def main(command: str, kind: str, model_path: str, output_path: str, form: str) -> None:
    torch.backends.quantized.engine = "x86"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if command == "build":
        model, x = m.build(kind)
        save(model, x, model_path, form)
    else:
        _, x = m.build(kind)
        model = load(model_path, kind, form)
    with torch.no_grad():
        torch.save(m.first(model(x)), output_path)
    print(json.dumps(counters()))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Trains a small BERT with FSDP2: each process holds a part of each weight.

    torchrun --standalone --nproc-per-node 2 examples/distributed/fsdp2.py

`fully_shard` gathers the weights of a layer before its use and drops them afterwards. The layers
are compiled, so evaluation between steps runs plans on packed weights. cpuaccel notices that FSDP
filled the weights anew, and packs them again. At the end a checkpoint of
torch.distributed.checkpoint goes into a second model. Needs scikit-learn for its digits.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard

sys.path.append(str(Path(__file__).resolve().parents[2]))

import cpuaccel
from examples.distributed import digits_bert, processes

BOUND = 1e-3
"""Of the scores of images that were not trained on, as in ddp_bert.py."""


def main(arguments: list[str] | None = None) -> None:
    """Trains in all processes and alone, and compares the scores after each part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", type=int, default=3, help="parts of the training (default: 3)")
    parser.add_argument("--steps", type=int, default=5, help="steps of a part (default: 5)")
    options = parser.parse_args(arguments)
    with processes.group() as (rank, world):
        sharded, alone = _sharded(), digits_bert.network()
        found, expected = [], []
        for _ in range(options.parts):
            digits_bert.train(sharded, options.steps, rank, world)
            digits_bert.train(alone, options.steps)
            found.append(_scores(sharded))
            expected.append(_scores(alone))
        found.append(_scores(_from_checkpoint(sharded)))
        expected.append(expected[-1])
        if cpuaccel.is_enabled() and not cpuaccel.stats()["calls"].get("graph_region.cpuaccel"):
            raise SystemExit("fsdp2: expected the evaluation to run plans of cpuaccel")
        processes.report("fsdp2", processes.largest_difference(found, expected), BOUND)


def _sharded() -> nn.Module:
    model = digits_bert.network()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        layer.compile(backend="cpuaccel" if cpuaccel.is_enabled() else "inductor")
        fully_shard(layer, mesh=mesh)
    # Else the root's own weights stay gathered after an evaluation: the next optimizer gets those.
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    return model


def _scores(model: nn.Module) -> Tensor:
    pixels, _ = digits_bert.held_out()
    model.eval()
    with torch.no_grad():
        scores: Tensor = model(pixels)
    model.train()
    return scores


def _from_checkpoint(model: nn.Module) -> nn.Module:
    """A second sharded model with the weights of `model`, by way of files."""
    folders = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folders)
    dcp.save(get_model_state_dict(model), checkpoint_id=folders[0])
    loaded = _sharded()
    with torch.no_grad():
        for parameter in loaded.parameters():
            parameter.zero_()
    _scores(loaded)  # packs zeros: the weights that are loaded next must replace them
    state = get_model_state_dict(loaded)
    dcp.load(state, checkpoint_id=folders[0])
    set_model_state_dict(loaded, state)
    return loaded


if __name__ == "__main__":
    main()

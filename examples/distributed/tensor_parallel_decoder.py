"""Generates tokens with a decoder of transformers whose layers are divided between processes.

    torchrun --standalone --nproc-per-node 2 examples/distributed/tensor_parallel_decoder.py

DTensor's tensor parallelism of a Llama with random weights: each process has some heads with their
cache, and some of the inner features. `generate` runs as it is. The feed-forward parts are
compiled: their shapes stay the same from step to step, while the cache grows. Needs transformers.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.append(str(Path(__file__).resolve().parents[2]))

import cpuaccel
from examples.distributed import processes

BOUND = 1e-4
"""Of the logits of the prompt: products are summed in parts. The tokens must be equal."""

_LAYER: dict[str, ParallelStyle] = {
    "self_attn.q_proj": ColwiseParallel(),
    "self_attn.k_proj": ColwiseParallel(),
    "self_attn.v_proj": ColwiseParallel(),
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}
_CONFIG = LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=512,
    max_position_embeddings=256,
)


def main(arguments: list[str] | None = None) -> None:
    """Generates in all processes and alone, and compares tokens and logits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=24, help="tokens to generate (default: 24)")
    count = parser.parse_args(arguments).tokens
    prompt = torch.randint(512, (1, 12), generator=torch.Generator().manual_seed(1))
    with processes.group() as (rank, _), torch.no_grad():
        alone, parallel = _decoder(), _parallel(_decoder())
        expected, found = _generated(alone, prompt, count), _generated(parallel, prompt, count)
        if not torch.equal(found, expected):
            raise SystemExit(f"tensor_parallel_decoder: other tokens in process {rank}: {found}")
        if rank == 0:
            print(f"tensor_parallel_decoder: {count} tokens as in one process")
        difference = processes.largest_difference([parallel(prompt).logits], [alone(prompt).logits])
        processes.report("tensor_parallel_decoder", difference, BOUND)


def _decoder() -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(_CONFIG).eval()


def _parallel(model: Any) -> Any:
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        parallelize_module(layer, mesh, _LAYER)
        layer.mlp.compile(backend="cpuaccel" if cpuaccel.is_enabled() else "inductor")
    return model


def _generated(model: Any, prompt: Tensor, count: int) -> Tensor:
    tokens: Tensor = model.generate(prompt, max_new_tokens=count, do_sample=False, pad_token_id=0)
    return tokens


if __name__ == "__main__":
    main()

"""Writes an object to memory and reads it back, in the ways that users save models."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import nn


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def through_file(value: Any) -> Any:
    """`value` after torch.save and torch.load."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def through_script(module: torch.jit.ScriptModule) -> nn.Module:
    """`module` after torch.jit.save and torch.jit.load."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)

"""nn.LSTM with packed weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel._compat import init_flat_weights
from cpuaccel._prepack.conversion import make_plain, packs, raw_parameter, weights_of
from cpuaccel._prepack.matrix import Matrix
from cpuaccel._prepack.module import PackedModule
from cpuaccel._prepack.weight import Form


@packs(nn.LSTM)
class PackedLSTM(PackedModule, nn.LSTM):
    """nn.LSTM of float32 whose weights are packed, for inference."""

    @classmethod
    def forms_to_pack(cls, module: Any) -> dict[str, Form] | str:
        if module.proj_size:
            return "proj_size is set"
        names = [name for name in module._flat_weights_names if name.startswith("weight")]
        if any(
            getattr(raw_parameter(module, name), "dtype", None) != torch.float32 for name in names
        ):
            return "its weights are not float32"
        return dict.fromkeys(names, Matrix((4 * module.hidden_size,)))

    @classmethod
    def drop_references(cls, module: Any) -> None:
        # torch's own list of the parameters, which its op takes.
        module.__dict__.update(_flat_weights=[], _flat_weight_refs=[])

    @classmethod
    def restore_references(cls, module: Any) -> None:
        init_flat_weights(module)

    @classmethod
    def fix_saved_state(cls, module: Any, state: dict[str, Any]) -> None:
        parameters = state["_parameters"]
        state["_flat_weights"] = [parameters.get(name) for name in module._flat_weights_names]
        state.pop("_flat_weight_refs", None)

    @property
    def _flat_weights(self) -> Any:
        make_plain(self, "a packed weight was read")
        return self.__dict__["_flat_weights"]

    @_flat_weights.setter
    def _flat_weights(self, weights: Any) -> None:
        make_plain(self, "a weight was replaced")
        self.__dict__["_flat_weights"] = weights

    def flatten_parameters(self) -> None:
        """Do nothing: it is for GPUs, and would read the weights."""

    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        weights = weights_of(self)
        reason = weights and _plain_call_reason(self, input, hx)
        if not weights or reason:
            make_plain(self, reason or "")
            return nn.LSTM.forward(self, input, hx)
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            x = x.transpose(0, 1)
        directions = 2 if self.bidirectional else 1
        if hx is None:
            zeros = x.new_zeros(self.num_layers * directions, x.shape[1], self.hidden_size)
            hx = (zeros, zeros)
        elif not batched:
            hx = tuple(state.unsqueeze(1) for state in hx)
        last: list[tuple[Tensor, Tensor]] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                suffix = f"l{layer}_reverse" if direction else f"l{layer}"
                ih, hh = weights[f"weight_ih_{suffix}"], weights[f"weight_hh_{suffix}"]
                output, h, c = torch.ops.cpuaccel.packed_lstm.default(
                    x,
                    ih.parts[0],
                    hh.parts[0],
                    ih.panel,
                    raw_parameter(self, f"bias_ih_{suffix}"),
                    raw_parameter(self, f"bias_hh_{suffix}"),
                    hx[0][len(last)],
                    hx[1][len(last)],
                    direction == 1,
                )
                outputs.append(output)
                last.append((h, c))
            x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        h, c = (torch.stack(states) for states in zip(*last, strict=True))
        if not batched:
            return x.squeeze(1), (h.squeeze(1), c.squeeze(1))
        return x.transpose(0, 1) if self.batch_first else x, (h, c)


def _plain_call_reason(module: Any, input: Any, hx: Any) -> str:
    """Return the reason why a call has to run in torch, on plain weights, or ""."""
    if not isinstance(input, Tensor):
        return "its input is a PackedSequence, or traced"
    if module.training and module.dropout and module.num_layers > 1:
        return "dropout is active"
    if torch.is_autocast_enabled("cpu"):
        return "autocast"
    states = () if hx is None else tuple(hx)
    if any(torch.overrides.has_torch_function((x,)) for x in (input, *states)):
        return "an input is a tensor subclass"
    weights = weights_of(module).values()
    biases = [raw_parameter(module, n) for n in module._flat_weights_names if n.startswith("bias")]
    if torch.is_grad_enabled() and any(
        x.requires_grad for x in (input, *states, *biases, *weights)
    ):
        return "gradients are required"
    if input.is_nested or input.dim() not in (2, 3) or input.shape[-1] != module.input_size:
        return "an input has another shape"
    time, batch = (1, 0) if module.batch_first and input.dim() == 3 else (0, 1)
    sequences = (input.shape[batch],) if input.dim() == 3 else ()
    depth = module.num_layers * (2 if module.bidirectional else 1)
    expected = (depth, *sequences, module.hidden_size)
    if 0 in (input.shape[time], *sequences) or (hx is not None and len(states) != 2):
        return "an input has another shape"
    if any(tuple(state.shape) != expected for state in states):
        return "an input has another shape"
    if any(x.dtype != torch.float32 or x.device.type != "cpu" for x in (input, *states, *biases)):
        return "an input is not float32 on the CPU"
    return ""

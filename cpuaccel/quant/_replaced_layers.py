"""Replaces layers of a model, one after another, so that no two weights are in memory twice."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from cpuaccel import _log, memory


def layers_by_name(
    model: nn.Module, is_layer: Callable[[nn.Module], bool]
) -> dict[nn.Module, list[str]]:
    """Return the layers in `model` that `is_layer` finds, each with all of its names.

    `model` itself is among them if it is such a layer.

    Raises:
        TypeError: `model` is not a module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected model to be a torch.nn.Module, got {type(model).__name__}")
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if is_layer(module):
            names.setdefault(module, []).append(name)
    return names


def replace(
    model: nn.Module,
    layers: dict[nn.Module, list[str]],
    reason_to_leave: Callable[[nn.Module, list[str]], str],
    made_of: Callable[[nn.Module, str], nn.Module],
    function: str,
) -> None:
    """Replace layers of `model` in place; empties `layers`.

    Args:
        model: The model.
        layers: What `layers_by_name` returned.
        reason_to_leave: Says why a layer with these names stays; empty if it does not.
        made_of: Makes a layer of one with this name. After a ValueError or a RuntimeError the layer
            stays, with the message as the reason.
        function: The name of the public function, for the log: it gets a warning for each layer
            that stays.
    """
    while layers:
        layer, names = layers.popitem()  # so that its weight is freed when it is replaced
        reason = reason_to_leave(layer, names)
        if not reason:
            try:
                made = made_of(layer, names[0])
            except (ValueError, RuntimeError) as error:
                reason = str(error)
        if reason:
            _log.logger.warning("%s: %s stays: %s", function, names[0], reason)
            continue
        for name in names:
            model.set_submodule(name, made)
        del layer, made
    memory.empty_cache()  # of the weights that were replaced, which the model does not need again

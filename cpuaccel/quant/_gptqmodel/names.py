"""The layers of gptqmodel for torch."""

MODULES = {
    "gptqmodel.nn_modules.qlinear.torch": ("TorchLinear", "TorchQuantLinear"),
    "gptqmodel.nn_modules.qlinear.torch_awq": ("AwqTorchLinear",),
}
"""gptqmodel's modules, each with its layer's class, and the name in older versions."""

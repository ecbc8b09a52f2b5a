"""The `torch.backends` entry point: `import torch` switches cpuaccel on."""

from __future__ import annotations

import warnings


def autoload() -> None:
    """Switch the engine on, unless CPUACCEL=0. Never raises: at most it warns, once.

    torch runs this near the end of its own import and turns any exception into a failed `import
    torch`.
    """
    try:
        from cpuaccel import config
        from cpuaccel.quant import engine

        if not config.get("enabled"):
            return
        try:
            engine.enable()

            from cpuaccel.compile.frontend import converted_models

            converted_models.install()
        except RuntimeError as error:
            message = f"cpuaccel is off, torch runs as it does without it: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    except Exception:
        # If warnings are errors, the warning above ends here. cpuaccel.enable() and `python -m
        # cpuaccel info` still say why the engine is off.
        return

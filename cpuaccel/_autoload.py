"""The `torch.backends` entry point: `import torch` switches cpuaccel on."""

from __future__ import annotations

import warnings


def autoload() -> None:
    """Switch cpuaccel on, unless CPUACCEL=0. Never raises: at most it warns, once.

    torch runs this near the end of its own import and turns any exception into a failed `import
    torch`.
    """
    try:
        from cpuaccel import _switch, config

        if not config.get("enabled"):
            return
        try:
            _switch.enable()

            from cpuaccel.compile.frontend import (
                converted_models,
                exported_models,
                legacy_models,
                pt2e_models,
            )

            for models in (converted_models, exported_models, legacy_models, pt2e_models):
                models.install()
        except RuntimeError as error:
            message = f"cpuaccel is off, torch runs without it: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    except Exception:
        # If warnings are errors, the warning above ends here. cpuaccel.enable() and `python -m
        # cpuaccel info` still say why it is off.
        return

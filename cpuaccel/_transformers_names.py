"""The names of transformers that cpuaccel uses, each with the versions of transformers it is for.

No other module of cpuaccel names a module, a class or a function of transformers: it takes the name
from here. A name is looked up when it is asked for, so nothing imports transformers earlier than
the user does. `tests/test_transformers_names.py` looks up every row.

If transformers lacks a name that a capture needs, the model itself runs, and the reason is counted.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

PACKAGE = "transformers"
COLLECTING_HOOKS = "transformers.utils.output_capturing"
"""The module whose hooks collect hidden states, in calls that ask for them only."""

ATTENTION = "_attn_implementation"
"""The attribute of a config that names the attention function."""
ATTENTION_TABLE = "ALL_ATTENTION_FUNCTIONS"
"""The table of attention functions in a model's module."""
EAGER_ATTENTION = "eager_attention_forward"
"""The attention function of a model's module that the table lacks."""
CACHE_ARGUMENTS = ("cache", "past_key_values")
"""The argument of a model's forward that is the cache, the newer name first."""


class _Name(NamedTuple):
    path: str
    """Module, colon, attribute."""
    since: str = "4.57"


_NAMES: dict[str, _Name] = {
    "PreTrainedModel": _Name("transformers:PreTrainedModel"),
    # Caches
    "Cache": _Name("transformers.cache_utils:Cache"),
    "DynamicCache": _Name("transformers.cache_utils:DynamicCache"),
    "DynamicLayer": _Name("transformers.cache_utils:DynamicLayer"),
    "DynamicSlidingWindowLayer": _Name("transformers.cache_utils:DynamicSlidingWindowLayer"),
    "EncoderDecoderCache": _Name("transformers.cache_utils:EncoderDecoderCache"),
    # Attention
    "AttentionInterface": _Name("transformers:AttentionInterface"),
    "AttentionMaskInterface": _Name("transformers:AttentionMaskInterface"),
    "sdpa_attention_forward": _Name(
        "transformers.integrations.sdpa_attention:sdpa_attention_forward"
    ),
    # Masks
    "create_bidirectional_mask": _Name(
        "transformers.masking_utils:create_bidirectional_mask", since="5.0"
    ),
    "create_masks_for_generate": _Name("transformers.masking_utils:create_masks_for_generate"),
    # Outputs
    "BaseModelOutput": _Name("transformers.modeling_outputs:BaseModelOutput"),
}

DECODERS = (
    *("Cache", "DynamicCache", "DynamicLayer", "DynamicSlidingWindowLayer"),
    *("AttentionInterface", "sdpa_attention_forward", "create_masks_for_generate"),
)
"""The names that captures of decoders need."""
DECODERS_WITH_ENCODERS = (
    *DECODERS,
    *("EncoderDecoderCache", "BaseModelOutput"),
)
"""The names that captures of decoders with an encoder need."""


def package() -> Any:
    """Return transformers if it was imported; else None."""
    return sys.modules.get(PACKAGE)


def major_version() -> int:
    """Return the first number of the version of transformers, which was imported."""
    return int(package().__version__.partition(".")[0])


def lacking(names: Iterable[str]) -> str:
    """Say which of the names this transformers lacks; "" if it has them all."""
    for name in names:
        try:
            get(name)
        except ImportError as error:
            return str(error)
    return ""


def get(name: str) -> Any:
    """Return what a name of the table stands for.

    Raises:
        ImportError: transformers lacks it.
    """
    row = _NAMES[name]
    module, _, attribute = row.path.partition(":")
    # Calls of models ask for names, and import_module takes microseconds.
    found = getattr(sys.modules.get(module), "__dict__", {}).get(attribute)
    if found is not None:
        return found
    transformers = importlib.import_module(PACKAGE)  # the error of a missing package says so
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"transformers {getattr(transformers, '__version__', '?')} has no {module}.{attribute}"
            f" (transformers {row.since} and later has it)"
        ) from error


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return get(name)

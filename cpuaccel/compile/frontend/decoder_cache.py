"""The capture cache of decoders: captures that another process has compared and timed.

What is saved is a capture without weights, its verdict, and what the attentions of the decoder
are. The key is `capture/model_key.py`. Only captures that run are saved: so a disturbed timing does
not keep the model from having a plan in later processes.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from cpuaccel import _log, _transformers_names
from cpuaccel.compile.capture import capture_json, code_key, model_key
from cpuaccel.compile.capture.attention_function import Heads
from cpuaccel.compile.capture.cached_attention import Site
from cpuaccel.compile.capture.decoder import attention_of
from cpuaccel.compile.capture.quantized_models import is_converted
from cpuaccel.compile.common import capture_files
from cpuaccel.compile.frontend.capture_outcome import CaptureOutcome
from cpuaccel.compile.validate.comparison import Difference
from cpuaccel.compile.validate.verdict import PLAN, Verdict

FROM_DISK = "from the cache on disk"


@dataclass(frozen=True)
class Entry:
    """What is known about one kind of call."""

    decoder: Any
    output: Any
    """The class of the model's output."""
    outcome: CaptureOutcome
    difference: Difference
    """That of the decoder from the model."""


class DecoderCache:
    """The part of the capture cache that belongs to one model as it is now."""

    def __init__(self, model: Any, *facts: object) -> None:
        """`facts`: what the verdicts depend on beside the model."""
        self._key = ""
        if not capture_files.is_on():
            return
        began = time.perf_counter()
        try:
            if is_converted(model):
                raise model_key.NoKey("it holds quantized tensors of torch.ao")
            self._key = model_key.key_of(model, *facts)
        except model_key.NoKey as error:
            _log.logger.info("capture cache: not used: %s", error)
        except Exception as error:
            _log.logger.info("capture cache: not used: %s", _log.first_line(error))
        _log.logger.info("capture cache: the key took %.2f s", time.perf_counter() - began)

    def load(self, kind: object, decoder: Callable[[], Any]) -> Entry | None:
        """Return what is saved for a kind of call; None if nothing is, or it cannot be used.

        `decoder()` returns the decoder; it may be one whose attentions are not known yet.
        """
        facts = self._key and capture_files.load(self._name(kind))
        if not facts:
            return None
        try:
            return _decoded(facts, decoder())
        except Exception as error:
            _log.logger.info("capture cache: %s is made anew: %s", kind, _log.first_line(error))
            return None

    def save(self, kind: object, entry: Entry) -> None:
        """Save what is known about a kind of call, if it can be written."""
        if not self._key:
            return
        try:
            facts = _encoded(entry)
        except ValueError as error:
            _log.logger.info("capture cache: %s is not saved: %s", kind, error)
            return
        capture_files.save(self._name(kind), facts)

    def _name(self, kind: object) -> str:
        return f"{self._key[:40]}-{code_key.digest_of(kind)[:16]}"


def _encoded(entry: Entry) -> dict[str, Any]:
    outcome, decoder = entry.outcome, entry.decoder
    made, verdict = outcome.capture, outcome.verdict
    if made is None or verdict.runs != PLAN:
        raise ValueError(f"the model runs: {verdict.reason}")
    if verdict.difference is None:
        raise ValueError("it was compared for another kind of call")
    if not outcome.is_validated:
        raise ValueError("it was not compared at other sizes")
    names = {id(module): name for name, module in decoder.model.named_modules()}
    return {
        "decoder": {
            "cache_name": decoder.cache_name,
            "mask_names": decoder.mask_names and list(decoder.mask_names),
            "sites": [
                [
                    *(names[id(site.module)], code_key.of_function(site.attend)),
                    *(site.layer, site.mask, dict(site.options)),
                    site.heads and [*site.heads[:3], str(site.heads.dtype)],
                ]
                for site in decoder.sites.found
            ],
        },
        "output": [entry.output.__module__, entry.output.__qualname__],
        "difference": asdict(entry.difference),
        "verdict": {**asdict(verdict), "seconds": dict(verdict.seconds)},
        "capture": capture_json.encode(made, decoder),
    }


def _decoded(facts: dict[str, Any], decoder: Any) -> Entry:
    described = facts["decoder"]
    names = described["mask_names"] and tuple(described["mask_names"])
    if decoder.cache_name != described["cache_name"] or decoder.mask_names != names:
        raise ValueError("the decoder has other masks or another cache")
    sites = [_site(decoder, *each) for each in described["sites"]]
    if decoder.sites.found not in ([], sites):
        raise ValueError("the decoder has other attentions")
    module, name = facts["output"]
    if module.split(".")[0] != _transformers_names.PACKAGE:
        raise ValueError(f"{module} is no module of transformers")
    output = getattr(importlib.import_module(module), name)
    saved = facts["verdict"]
    verdict = Verdict(**{**saved, "difference": Difference(**saved["difference"])})
    verdict = replace(verdict, reason=f"{verdict.reason}, {FROM_DISK}")
    made = capture_json.decode(facts["capture"], decoder)
    decoder.sites.found = decoder.sites.found or sites
    outcome = CaptureOutcome(made.run, made.report, verdict, "", made)
    return Entry(decoder, output, outcome, Difference(**facts["difference"]))


def _site(
    decoder: Any,
    path: str,
    code: str,
    layer: int,
    mask: str | None,
    options: dict[str, Any],
    heads: list[Any] | None,
) -> Site:
    module = decoder.model.get_submodule(path)
    attend = attention_of(module)
    if code_key.of_function(attend) != code:
        raise ValueError("the attention function is another one")
    known = None
    if heads is not None:
        queries, keys, width, dtype = heads
        known = Heads(queries, keys, width, getattr(torch, dtype.removeprefix("torch.")))
    return Site(module, attend, layer, mask, options, known)

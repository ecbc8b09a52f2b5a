"""Reports beside Inductor's cache on disk, for graphs that another process compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from cpuaccel import _log
from cpuaccel._files import write_atomically
from cpuaccel.compile.common.report import Report


def graph_key(gm: GraphModule, inputs: Sequence[Any], settings: Any) -> str:
    """Return a key of a graph that Dynamo captured; `settings` are further facts."""
    facts = [torch.__version__, repr(settings), gm.code]
    facts += [_described(each) for each in inputs]
    autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
    facts += [str(autocast), str(torch.get_num_threads())]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def save(key: str, report: Report) -> None:
    """Save `report` to disk if Inductor caches the graph there; errors are only logged."""
    from cpuaccel._compat import inductor_config

    if inductor_config.force_disable_caches or not inductor_config.fx_graph_cache:
        return
    try:
        write_atomically(_path(key), json.dumps(asdict(report)))
    except OSError as error:
        _log.logger.info("a report is not saved to disk: %s", error)


def load(key: str, compile_id: str) -> Report | None:
    """Return the saved report, with this `compile_id`; None if it cannot be read."""
    try:
        saved = json.loads(_path(key).read_text(encoding="utf-8"))
        return replace(Report.from_facts(saved), compile_id=compile_id)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(key: str) -> Path:
    from cpuaccel._compat import inductor_cache_dir

    return Path(inductor_cache_dir()) / "cpuaccel" / f"{key}.json"


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.stride()}"
    return str(value)

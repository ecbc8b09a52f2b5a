"""`cpuaccel.optimize(model)` without example inputs: the models whose calls are known.

These are models of transformers, and models of sentence_transformers, which contain them.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from cpuaccel.compile.frontend import same_class
from cpuaccel.compile.frontend.encoding_models import EncoderPlans
from cpuaccel.compile.frontend.generating_models import GenerationPlans, generates
from cpuaccel.compile.frontend.seq2seq_models import Seq2SeqPlans


def is_known(model: object) -> bool:
    """Say whether `optimized` takes a model."""
    return same_class.is_of_transformers(model) or _is_of_sentence_transformers(model)


def optimized(model: Any, time_budget: float, sizes_budget: float) -> Any:
    """Return a module that is used as `model` is, and runs plans where they hold."""
    if same_class.is_of_transformers(model):
        if same_class.plans_of(model) is not None:
            return model
        return same_class.with_plans(plans_for(model, time_budget, sizes_budget))
    return _with_optimized_parts(model, {}, time_budget, sizes_budget)


def plans_for(model: Any, time_budget: float, sizes_budget: float) -> same_class.Plans:
    """Return plans for a model of transformers, which are made in its calls."""
    kind: Any = EncoderPlans
    if generates(model):
        kind = Seq2SeqPlans if model.config.is_encoder_decoder else GenerationPlans
    plans: same_class.Plans = kind(model, time_budget, sizes_budget)
    return plans


def _is_of_sentence_transformers(model: object) -> bool:
    package: Any = sys.modules.get("sentence_transformers")
    if package is None:
        return False
    kinds = (package.SentenceTransformer, package.CrossEncoder)
    return isinstance(model, kinds)


def _with_optimized_parts(
    module: Any, made: dict[int, Any], time_budget: float, sizes_budget: float
) -> Any:
    """Return a module like `module` whose models of transformers are optimized.

    It shares everything else with `module`. `made` has what was returned for other modules.
    """
    if id(module) not in made:
        if same_class.is_of_transformers(module):
            made[id(module)] = optimized(module, time_budget, sizes_budget)
        else:
            budgets = (time_budget, sizes_budget)
            parts = {
                name: part if part is None else _with_optimized_parts(part, made, *budgets)
                for name, part in module._modules.items()
            }
            found: Any = module
            if any(part is not module._modules[name] for name, part in parts.items()):
                found = object.__new__(type(module))
                found.__dict__.update(vars(module), _modules=parts)
            made[id(module)] = found
    made_one: nn.Module = made[id(module)]
    return made_one

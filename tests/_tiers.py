"""The tiers of the Python tests: `make test` runs the small one, `make test-full` and pytest all.

CPUACCEL_TEST_TIER=small leaves out the modules of FULL_ONLY, and runs at most MAX_CASES cases of a
parametrized test, or MAX_SLOW_CASES of a test in SLOW: evenly spaced ones, the first included, so
that every run has the same cases.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

MAX_CASES = 8
MAX_SLOW_CASES = 2

SLOW = {
    "compile/test_attention_fallback.py::test_it_gets_rows",
    "compile/test_backend.py::test_a_training_graph_is_inductors",
    "compile/test_backend.py::test_dynamic_sizes",
    "compile/test_converted_eager_models.py::test_changes_are_followed",
    "compile/test_converted_models.py::test_it_is_one_graph_of_integers",
    "compile/test_int8_exact.py::test_it_is_exact",
    "compile/test_linear_layouts.py::test_attention_copies_nothing",
    "compile/test_patterns.py::test_unsupported_ops_run_on_inductor_and_are_reported",
    "compile/test_plan_cache.py::test_a_constant_that_changes_is_followed",
    "compile/test_quantized_norms.py::test_one_step",
    "gnn/test_inductor.py::test_compiled_training_step",
    "prepack/test_never_stale.py::test_a_weight_that_others_hold_is_not_packed",
    "quant/test_fuse_modules.py::test_copies",
    "quant/test_pt2e_ways.py::test_eager_and_optimized",
    "torchao_int8/test_hook.py::test_every_order_of_imports",
}
"""Parametrized tests each of whose cases compiles a model or starts a process."""

FULL_ONLY = {
    "benchmarks/test_bench_comparison.py": "runs whole benchmarks",
    "benchmarks/test_bench_coverage.py": "runs whole benchmarks",
    "benchmarks/test_bench_floats.py": "runs whole benchmarks",
    "benchmarks/test_bench_gnn.py": "runs whole benchmarks",
    "benchmarks/test_bench_gnn_blog.py": "runs whole benchmarks",
    "benchmarks/test_bench_gnn_roofline.py": "runs whole benchmarks",
    "benchmarks/test_bench_memory.py": "runs whole benchmarks",
    "benchmarks/test_bench_models.py": "runs whole benchmarks",
    "benchmarks/test_bench_teams.py": "runs whole benchmarks",
    "compile/test_accuracy.py": "trains and compares models",
    "compile/test_aot.py": "compiles C++ with AOTInductor",
    "compile/test_bf16.py": "compiles bf16 models; test_single_ops and test_patterns have bf16 too",
    "compile/test_concat_chains.py": "dense networks of many sizes",
    "compile/test_merged_groups.py": "grouped convolutions of AMX",
    "compile/test_nets.py": "torchvision's networks",
    "compile/test_onednn_corner_cases.py": "known bugs of oneDNN, one process each",
    "compile/test_quantized_attention.py": "quantized transformers of many shapes",
    "compile/test_random_graphs.py": "random graphs",
    "compile/test_save_dynamic_shapes.py": "files of models with many sizes",
    "compile/test_transformer_masks.py": "transformers with each kind of mask",
    "compile/test_transformers.py": "whole transformers",
    "compile/test_works_with.py": "other libraries beside cpuaccel",
    "examples/test_aoti_cpp.py": "builds a C++ program against torch",
    "examples/test_ddp_graphsage.py": "trains in several processes",
    "examples/test_serve.py": "starts servers",
    "examples/test_serve_ray.py": "starts servers",
    "examples/test_serve_sentences.py": "starts servers",
    "gnn/test_compiled_layers.py": "compiles every PyG layer",
    "ops/test_lstm_autocast.py": "long LSTMs under autocast",
    "quant/legacy/test_run.py": "compiles and exports in processes of their own",
    "quant/test_exact_sums.py": "one process for each capped ISA",
    "quant/test_forked.py": "forked processes",
    "quant/test_fuse_models.py": "whole models",
    "quant/test_models.py": "whole models",
    "quant/test_pt2e_aot.py": "compiles C++ with AOTInductor",
    "quant/test_saved_modules.py": "saved models of every form",
    "torchao_int8/test_aot.py": "compiles C++ with AOTInductor",
}
"""Modules of the full tier, with what makes them long."""


def is_small() -> bool:
    """Return whether this run has the small tier only."""
    return os.environ.get("CPUACCEL_TEST_TIER") == "small"


def split(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items of the small tier, and all others."""
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if _in_tests(item.nodeid.split("::")[0]) not in FULL_ONLY:
            functions[item.nodeid.split("[")[0]].append(item)
    small = {
        id(case)
        for name, cases in functions.items()
        for case in _spaced(cases, MAX_SLOW_CASES if _in_tests(name) in SLOW else MAX_CASES)
    }
    return (
        [item for item in items if id(item) in small],
        [item for item in items if id(item) not in small],
    )


def _in_tests(name: str) -> str:
    return name.removeprefix("tests/")


def _spaced(cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    if len(cases) <= most:
        return cases
    return [cases[number * len(cases) // most] for number in range(most)]

"""The tiers of the Python tests: `make test` runs the small one, `make test-full` and pytest all.

CPUACCEL_TEST_TIER=small leaves out the modules and tests of FULL_ONLY, and runs at most MAX_CASES
cases of a parametrized test, or MAX_SLOW_CASES of a test in SLOW: evenly spaced ones, the first
included, so that every run has the same cases.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

MAX_CASES = 5
MAX_SLOW_CASES = 2

SLOW = {
    "compile/test_attention_fallback.py::test_it_gets_rows",
    "compile/test_backend.py::test_a_training_graph_is_inductors",
    "compile/test_backend.py::test_dynamic_sizes",
    "compile/test_converted_eager_models.py::test_changes_are_followed",
    "compile/test_converted_models.py::test_it_is_one_graph_of_integers",
    "compile/test_decoder_steps.py::test_a_layer_of_a_decoder_is_one_plan",
    "compile/test_decoder_steps.py::test_each_form_of_a_norm",
    "compile/test_decoder_steps.py::test_rotary_embedding",
    "compile/test_decoder_steps.py::test_what_only_resembles_a_norm_stays_right",
    "compile/test_int8_autocast.py::test_layers_run_on_integers",
    "compile/test_int8_exact.py::test_it_is_exact",
    "compile/test_linear_layouts.py::test_attention_copies_nothing",
    "compile/test_linear_layouts.py::test_layers",
    "compile/test_mutations.py::test_a_mutated_tensor_that_is_read_elsewhere_is_a_fallback",
    "compile/test_mutations.py::test_one_region_updates_the_cache",
    "compile/test_patterns.py::test_unsupported_ops_run_on_inductor_and_are_reported",
    "compile/test_plan_cache.py::test_a_constant_that_changes_is_followed",
    "compile/test_quantized_norms.py::test_one_step",
    "compile/test_resizing.py::test_between_layers",
    "compile/test_resizing.py::test_left_to_inductor",
    "compile/test_resizing.py::test_other_modes_are_torchs",
    "gnn/test_inductor.py::test_compiled_graphs_take_the_negative_numbers_that_eager_takes",
    "gnn/test_inductor.py::test_compiled_training_step",
    "gnn/test_transforms.py::test_compiled_layers",
    "prepack/test_never_stale.py::test_a_weight_that_others_hold_is_not_packed",
    "quant/legacy/test_converted.py::test_computes_what_the_saved_model_computes",
    "quant/legacy/test_converted.py::test_optimized_it_returns_the_same_bytes",
    "quant/legacy/test_eager.py::test_fills_the_model_of_the_user",
    "quant/legacy/test_plans.py::test_eager_calls_return_what_optimize_returns",
    "quant/test_fuse_modules.py::test_a_state_dict_that_lacks_something",
    "quant/test_fuse_modules.py::test_copies",
    "quant/test_pt2e_ranges.py::test_plans_run_all_ranges_in_int8",
    "quant/test_pt2e_ways.py::test_compiled",
    "quant/test_pt2e_ways.py::test_eager_and_optimized",
    "quant/test_pt2e_ways.py::test_exported_saved_and_optimized",
    "quant/test_pt2e_ways.py::test_saved_and_loaded",
    "test_quiet.py::test_warnings_are_torchs",
    "test_without_torch_ao.py::test_each_way_is_blocked",
    "torchao_int8/test_hook.py::test_every_order_of_imports",
    "torchao_int8/test_plans.py::test_a_function_that_two_read_stays",
    "torchao_int8/test_plans.py::test_a_saved_plan_has_the_steps",
    "torchao_int8/test_plans.py::test_a_sum_and_a_norm_are_one_step",
    "torchao_int8/test_plans.py::test_an_activation_is_part_of_the_step",
    "torchao_int8/test_plans.py::test_layers_give_the_bits_of_eager_mode",
    "torchao_int8/test_plans.py::test_layers_of_one_source_share_its_integers",
    "torchao_intx/test_linear.py::test_compiled",
    "torchao_intx/test_plans.py::test_changed_weights",
    "torchao_intx/test_plans.py::test_every_way_runs_the_kernel",
    "torchao_intx/test_plans.py::test_explain_has_the_rate_of_each_layer",
    "torchao_intx/test_plans.py::test_gates_and_residuals_are_part_of_the_layers",
}
"""Parametrized tests each of whose cases compiles a model or starts a process."""

FULL_ONLY = {
    "benchmarks/test_bench_comparison.py": "runs whole benchmarks",
    "benchmarks/test_bench_coverage.py": "runs whole benchmarks",
    "benchmarks/test_bench_decoder_coverage.py": "runs whole benchmarks",
    "benchmarks/test_bench_decoders.py": "runs whole benchmarks",
    "benchmarks/test_bench_floats.py": "runs whole benchmarks",
    "benchmarks/test_bench_gnn.py": "runs whole benchmarks",
    "benchmarks/test_bench_gnn_blog.py": "runs whole benchmarks",
    "benchmarks/test_bench_collectives.py": "runs whole benchmarks",
    "benchmarks/test_bench_gnn_roofline.py": "runs whole benchmarks",
    "benchmarks/test_bench_memory.py": "runs whole benchmarks",
    "benchmarks/test_bench_models.py": "runs whole benchmarks",
    "benchmarks/test_bench_pt2e.py": "runs whole benchmarks",
    "benchmarks/test_bench_teams.py": "runs whole benchmarks",
    "benchmarks/test_bench_torchao.py": "runs whole benchmarks",
    "compile/test_accuracy.py": "trains and compares models",
    "compile/test_aot.py": "compiles C++ with AOTInductor",
    "compile/test_backend.py::test_a_graph_from_the_disk_is_explained_too": "compiles in processes",
    "compile/test_bf16.py": "compiles bf16 models; test_single_ops and test_patterns have bf16 too",
    "compile/test_cheap_ops.py::test_else_inductor_compiles_them": "compiles C++ with Inductor",
    "compile/test_concat_chains.py": "dense networks of many sizes",
    "compile/test_dynamic_shapes.py::test_batches_and_lengths_of_an_encoder": "a whole encoder",
    "compile/test_linear_layouts.py::test_attention_alone": "compiles attention of many layouts",
    "compile/test_linear_layouts.py::test_sizes_that_change": "compiles encoders for many sizes",
    "compile/test_merged_groups.py": "grouped convolutions of AMX",
    "compile/test_mutations.py::test_a_cache_of_the_call": "compiles decoders",
    "compile/test_nets.py": "torchvision's networks",
    "compile/test_onednn_corner_cases.py": "known bugs of oneDNN, one process each",
    "compile/test_optimize_changes.py::test_a_table_that_grows_is_made_once_for_each_size": (
        "captures of many sizes"
    ),
    "compile/test_plan_cache.py::test_twenty_sizes_in_turn_do_not_grow_memory": (
        "plans of many sizes"
    ),
    "compile/test_quantized_attention.py": "quantized transformers of many shapes",
    "compile/test_random_graphs.py": "random graphs",
    "compile/test_region_timing.py::test_a_slower_region_is_a_fallback_with_the_times": (
        "compiles C++ with Inductor"
    ),
    "compile/test_save_dynamic_shapes.py": "files of models with many sizes",
    "compile/test_sharded_weights.py::test_weights_of_fsdp_in_two_processes": (
        "compiles in several processes"
    ),
    "compile/test_transformer_masks.py": "transformers with each kind of mask",
    "compile/test_transformers.py": "whole transformers",
    "compile/test_works_with.py": "other libraries beside cpuaccel",
    "examples/test_aoti_cpp.py": "builds a C++ program against torch",
    "examples/test_ddp_graphsage.py": "trains in several processes",
    "examples/test_distributed.py": "trains in several processes",
    "examples/test_serve.py": "starts servers",
    "examples/test_serve_ray.py": "starts servers",
    "examples/test_serve_sentences.py": "starts servers",
    "examples/test_serve_streams.py": "starts servers",
    "gnn/test_compiled_layers.py": "compiles every PyG layer",
    "gnn/test_inductor.py::test_registered_when_inductor_is_imported": (
        "a process that imports Inductor"
    ),
    "ops/test_kept_linear.py::test_what_is_gone_is_dropped_and_counted_out": (
        "waits for large weights"
    ),
    "ops/test_lstm_autocast.py": "long LSTMs under autocast",
    "quant/legacy/test_run.py": "compiles and exports in processes of their own",
    "quant/test_exact_sums.py": "one process for each capped ISA",
    "quant/test_forked.py": "forked processes",
    "quant/test_fuse_models.py": "whole models",
    "quant/test_models.py": "whole models",
    "quant/test_pt2e_aot.py": "compiles C++ with AOTInductor",
    "quant/test_saved_modules.py": "saved models of every form",
    "test_autoload.py::test_torch_logs_prints_decisions": "a process that compiles",
    "test_matmul_table.py::test_rows_of_this_machine_go_first": "processes that read a table",
    "test_memory.py::test_small_tensors_age_what_is_kept": "waits for memory to age",
    "test_package.py::test_runs_on_a_haswell": "an emulated CPU",
    "torchao_int8/test_aot.py": "compiles C++ with AOTInductor",
    "torchao_int8/test_hook.py::test_switched_off_before_torchao_is_imported": (
        "a process that imports torchao"
    ),
}
"""Modules and tests of the full tier, with what makes them long."""


def is_small() -> bool:
    """Return whether this run has the small tier only."""
    return os.environ.get("CPUACCEL_TEST_TIER") == "small"


def split(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items of the small tier, and all others."""
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        function = item.nodeid.split("[")[0]
        module = function.split("::")[0]
        if FULL_ONLY.keys().isdisjoint({_in_tests(module), _in_tests(function)}):
            functions[function].append(item)
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

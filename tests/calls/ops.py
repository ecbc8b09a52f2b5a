"""The table of ops: each op that cpuaccel overrides, and each function of its API that runs ops.

`COMPILED_ALONE` lists the ops of cpuaccel that no public function calls eagerly.
"""

from __future__ import annotations

from quant._engine import missing_front_end

from calls import (
    _rows_api,
    _rows_floats,
    _rows_fused,
    _rows_gnn,
    _rows_packed,
    _rows_quantized,
)
from calls._row import Row

_OF_QUANTIZED_TENSORS: tuple[Row, ...] = (
    *_rows_quantized.ROWS,
    *_rows_packed.ROWS,
    *_rows_fused.ROWS,
)
"""Torch's own kernels run these in a build without the front end for quantized tensors."""

ROWS: tuple[Row, ...] = (
    *_rows_floats.ROWS,
    *_rows_gnn.ROWS,
    *(() if missing_front_end() else _OF_QUANTIZED_TENSORS),
    *_rows_api.ROWS,
)

BY_NAME = {row.name: row for row in ROWS}

COMPILED_ALONE = {
    "graph_region": "a plan's partition; tests/compile/test_region_op.py",
    "graph_region_": "a plan's partition that writes inputs; tests/compile/test_region_op.py",
    "graph_region_by_torch": "graph_region in torch's ops; tests/compile",
    "cached_attention": "captures of decoders; tests/compile/test_generating_models.py",
    "cross_attention": "captures of decoders; tests/compile/test_seq2seq_models.py",
    "attend_and_keep_": "cached_attention's kernel; tests/compile/test_cache_room.py",
    "layer_input": "a mark in traces; tests/compile/test_repeated_layers.py",
    "layer_output": "a mark in traces; tests/compile/test_repeated_layers.py",
    "repeated_layer": "a layer in traces; tests/compile/test_repeated_layers.py",
    "resize": "a step of compiled graphs; tests/compile/test_resizing.py",
    "keep_private": "a mark in compiled graphs; tests/compile",
    "kept_linear": "a layer of compiled graphs; tests/ops/test_kept_linear.py",
    "int8_linear": "torchao's layers; tests/torchao_int8",
    "packed_int8_linear": "layers of pack_torchao; tests/torchao_int8/test_packed.py",
    "pack_int8": "packs weights of pack_torchao; tests/torchao_int8/test_packed.py",
    "unpack_int8": "unpacks weights of pack_torchao; tests/torchao_int8/test_packed.py",
    "intx_linear": "torchao's layers; tests/ops/test_intx_linear.py",
    "intx_embedding": "torchao's tables; tests/torchao_intx/test_embedding.py",
    "packed_intx_linear": "layers of load_gptq; tests/quant/test_intx_linear.py",
    "pack_intx": "packs weights of load_gptq; tests/quant/test_intx_linear.py",
    "unpack_intx": "dequantizes weights of load_gptq; tests/quant/test_intx_linear.py",
    "shuffle_channels": "a step of fused models; tests/ops/test_channel_shuffle.py",
    "weight_to_bytes": "what cpuaccel.save writes; tests/prepack/test_weight_bytes.py",
    "weight_from_bytes": "what cpuaccel.load reads; tests/prepack/test_weight_bytes.py",
    "saved_linear": "a layer that cpuaccel.load reads; tests/prepack/test_weight_bytes.py",
    "neighbor_sample": "random; tests/gnn/test_neighbor_sample.py",
    "describe_linear": "text for explain(); tests/test_explain.py",
    "describe_conv2d": "text for explain(); tests/test_explain.py",
    "describe_conv3d": "text for explain(); tests/test_explain.py",
}

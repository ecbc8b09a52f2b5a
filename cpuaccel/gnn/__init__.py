"""Message passing over a plain `edge_index` without a message for each edge in memory.

An `edge_index` is torch_geometric's: int32 or int64, shape [2, E], row 0 where edges begin and row
1 where they end. It is sorted once and kept (`CPUACCEL_INDEX_CACHE_MIB`), and sorted again as soon
as it has changed.
"""

from cpuaccel.gnn.accelerate import accelerate, unaccelerate
from cpuaccel.gnn.attention import edge_softmax, gat_attention, gatv2_attention
from cpuaccel.gnn.spmm import gather_scale_reduce, spmm

__all__ = [
    "accelerate",
    "edge_softmax",
    "gat_attention",
    "gather_scale_reduce",
    "gatv2_attention",
    "spmm",
    "unaccelerate",
]

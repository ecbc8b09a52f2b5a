"""PT2E's quantizer for this engine. It needs torchao, which the rest of cpuaccel does not."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationConfig,
    get_bias_qspec,
    get_input_act_qspec,
    get_module_name_filter,
    get_weight_qspec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import X86InductorQuantizer

__all__ = ["X86Quantizer"]

_LINEAR = torch.ops.aten.linear.default


class X86Quantizer(X86InductorQuantizer):  # type: ignore[misc]  # torchao has no types
    """torchao's `X86InductorQuantizer`, also for projections of `nn.MultiheadAttention`.

    torchao's class finds linear layers by the function or module that they come from. So it leaves
    those in `F.multi_head_attention_forward` in float: a third of a vision transformer's products.
    This class quantizes every `aten.linear` that torchao's left. It uses the first configuration
    that is set of these: that of the layer's module name, that of linear layers, the global one. If
    it is None, the layer stays in float. Everything else, and the setup, is torchao's:

        quantizer = X86Quantizer()
        quantizer.set_global(get_default_x86_inductor_quantization_config())
        model = prepare_pt2e(exported, quantizer)
    """

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate in place what is to be quantized in `model`, and return it."""
        model = super().annotate(model)
        for node in model.graph.nodes:
            if node.target is _LINEAR and Q_ANNOTATION_KEY not in node.meta:
                config = self._config_of(node)
                if config is not None:
                    node.meta[Q_ANNOTATION_KEY] = _annotation(node, config)
        return model

    def _config_of(self, node: Node) -> QuantizationConfig | None:
        for name, config in self.module_name_qconfig.items():
            if get_module_name_filter(name)(node):
                return config
        return self.operator_type_qconfig.get(_LINEAR, self.global_config)


def _annotation(linear: Node, config: QuantizationConfig) -> QuantizationAnnotation:
    specs = (get_input_act_qspec(config), get_weight_qspec(config), get_bias_qspec(config))
    of_inputs = {
        each: spec for each, spec in zip(linear.args, specs, strict=False) if isinstance(each, Node)
    }
    return QuantizationAnnotation(input_qspec_map=of_inputs, _annotated=True)

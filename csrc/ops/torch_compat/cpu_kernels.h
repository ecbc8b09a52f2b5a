// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. torch's own CPU kernels (at::cpu, at::native) and ops without the dispatcher's lookup
// (at::_ops), for calls that cpuaccel does not run. These headers only declare functions.
#pragma once

// Included before the headers that need them but do not include them.
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <ATen/ops/_convolution_native.h>                                          // 2.13 to 2.15
#include <ATen/ops/_embedding_bag_backward_cpu_dispatch.h>                         // 2.13 to 2.15
#include <ATen/ops/_embedding_bag_cpu_dispatch.h>                                  // 2.13 to 2.15
#include <ATen/ops/_embedding_bag_dense_backward_cpu_dispatch.h>                   // 2.13 to 2.15
#include <ATen/ops/_embedding_bag_forward_only_cpu_dispatch.h>                     // 2.13 to 2.15
#include <ATen/ops/_embedding_bag_per_sample_weights_backward_cpu_dispatch.h>      // 2.13 to 2.15
#include <ATen/ops/_index_put_impl_cpu_dispatch.h>                                 // 2.13 to 2.15
#include <ATen/ops/_int_mm_cpu_dispatch.h>                                         // 2.13 to 2.15
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_native.h>  // 2.13 to 2.15
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_native.h>           // 2.13 to 2.15
#include <ATen/ops/_segment_reduce_backward_cpu_dispatch.h>                        // 2.13 to 2.15
#include <ATen/ops/addmm_cpu_dispatch.h>                                           // 2.13 to 2.15
#include <ATen/ops/baddbmm_cpu_dispatch.h>                                         // 2.13 to 2.15
#include <ATen/ops/bmm_cpu_dispatch.h>                                             // 2.13 to 2.15
#include <ATen/ops/convolution_backward_native.h>                                  // 2.13 to 2.15
#include <ATen/ops/gather_cpu_dispatch.h>                                          // 2.13 to 2.15
#include <ATen/ops/index_add_cpu_dispatch.h>                                       // 2.13 to 2.15
#include <ATen/ops/index_cpu_dispatch.h>                                           // 2.13 to 2.15
#include <ATen/ops/index_reduce_cpu_dispatch.h>                                    // 2.13 to 2.15
#include <ATen/ops/index_reduce_ops.h>                                             // 2.13 to 2.15
#include <ATen/ops/index_select_cpu_dispatch.h>                                    // 2.13 to 2.15
#include <ATen/ops/isin_cpu_dispatch.h>                                            // 2.13 to 2.15
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>                         // 2.13 to 2.15
#include <ATen/ops/mkldnn_rnn_layer_backward_cpu_dispatch.h>                       // 2.13 to 2.15
#include <ATen/ops/mkldnn_rnn_layer_cpu_dispatch.h>                                // 2.13 to 2.15
#include <ATen/ops/mm_cpu_dispatch.h>                                              // 2.13 to 2.15
#include <ATen/ops/scatter_add_cpu_dispatch.h>                                     // 2.13 to 2.15
#include <ATen/ops/scatter_reduce_cpu_dispatch.h>                                  // 2.13 to 2.15
#include <ATen/ops/scatter_reduce_ops.h>                                           // 2.13 to 2.15
#include <ATen/ops/segment_reduce_cpu_dispatch.h>                                  // 2.13 to 2.15
#include <ATen/ops/silu_cpu_dispatch.h>                                            // 2.13 to 2.15

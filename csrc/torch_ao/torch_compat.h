// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. Quantized tensors, their packed weights, and torch's kernels for them. A torch without these
// headers gets no front end (cmake/TorchPackage.cmake).
#pragma once

#include <ATen/native/UpSample.h>                       // 2.13 to 2.15
#include <ATen/native/quantized/AffineQuantizerBase.h>  // 2.13 to 2.15
#include <ATen/native/quantized/PackedParams.h>         // 2.13 to 2.15
#include <ATen/ops/_empty_affine_quantized_native.h>    // 2.13 to 2.15
#include <ATen/ops/channel_shuffle_native.h>            // 2.13 to 2.15
#include <ATen/ops/mean_native.h>                       // 2.13 to 2.15
#include <ATen/quantized/QTensorImpl.h>                 // 2.13 to 2.15
#include <ATen/quantized/Quantizer.h>                   // 2.13 to 2.15

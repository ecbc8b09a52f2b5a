// Converts blocks of f32, bf16 or f16 elements to floats and back, some lanes at a time. Included
// by ISA sources only.
#pragma once

#include <cstdint>

#include "kernels/gemm/kernels.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Loads the first `count` elements, 1 to kLanes; the other lanes are zeros.
template <typename E>
CPUACCEL_INLINE typename E::Vector load_part(const typename E::Element* src, int64_t count) {
  if (count == E::kLanes) {
    return E::load(src);
  }
  alignas(32) typename E::Element elements[E::kLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    elements[i] = src[i];
  }
  return E::load(elements);
}

template <typename E>
void load_rows(const LoadCall& call) {
  for (int64_t i = 0; i < call.rows; ++i) {
    const auto* src = static_cast<const typename E::Element*>(call.src) + i * call.row_stride;
    float* dst = call.dst + i * call.stride;
    int64_t j = 0;
    for (; j + E::kLanes <= call.columns; j += E::kLanes) {
      E::store_floats(dst + j, E::load(src + j));
    }
    for (; j < call.columns; ++j) {
      dst[j] = E::load1(src + j);
    }
  }
}

template <typename E>
void load_strided(const LoadCall& call, int64_t row, int64_t rows, int64_t column,
                  int64_t columns) {
  const auto* src = static_cast<const typename E::Element*>(call.src);
  for (int64_t i = row; i < row + rows; ++i) {
    for (int64_t j = column; j < column + columns; ++j) {
      call.dst[i * call.stride + j] = E::load1(src + i * call.row_stride + j * call.column_stride);
    }
  }
}

// For row stride 1 and any column stride.
template <typename E>
void load_columns(const LoadCall& call) {
  const auto* src = static_cast<const typename E::Element*>(call.src);
  const int64_t rows = call.rows / E::kLanes * E::kLanes;
  const int64_t columns = call.columns / E::kLanes * E::kLanes;
  const auto turn = [&](int64_t i, int64_t j) {
    typename E::Vector block[E::kLanes];
    for (int l = 0; l < E::kLanes; ++l) {
      block[l] = E::load(src + i + (j + l) * call.column_stride);
    }
    E::transpose(block);
    for (int l = 0; l < E::kLanes; ++l) {
      E::store_floats(call.dst + (i + l) * call.stride + j, block[l]);
    }
  };
  // The inner loop runs over the longer dimension.
  if (call.rows > call.columns) {
    for (int64_t j = 0; j < columns; j += E::kLanes) {
      for (int64_t i = 0; i < rows; i += E::kLanes) {
        turn(i, j);
      }
    }
  } else {
    for (int64_t i = 0; i < rows; i += E::kLanes) {
      for (int64_t j = 0; j < columns; j += E::kLanes) {
        turn(i, j);
      }
    }
  }
  load_strided<E>(call, 0, rows, columns, call.columns - columns);
  load_strided<E>(call, rows, call.rows - rows, 0, call.columns);
}

template <typename E>
void load_elements(const LoadCall& call) {
  if (call.column_stride == 1) {
    load_rows<E>(call);
  } else if (call.row_stride == 1) {
    load_columns<E>(call);
  } else {
    load_strided<E>(call, 0, call.rows, 0, call.columns);
  }
}

// Each row goes through all panels before the next, so that memory is read in long runs. The
// hardware prefetcher does not see that the next rows follow, so they are prefetched.
template <typename E>
void load_row_panels(const LoadCall& call, int64_t nr) {
  constexpr int64_t kAhead = 8;
  const auto* src = static_cast<const typename E::Element*>(call.src);
  for (int64_t i = 0; i < call.rows; ++i, src += call.row_stride) {
    const bool ahead = i + kAhead < call.rows;
    float* dst = call.dst + i * nr;
    for (int64_t n = 0; n < call.columns; n += nr, dst += call.rows * nr) {
      const int64_t count = call.columns - n < nr ? call.columns - n : nr;
      if (ahead) {
        __builtin_prefetch(src + n + kAhead * call.row_stride, 0, 2);
      }
      int64_t j = 0;
      for (; j + E::kLanes <= count; j += E::kLanes) {
        E::store_floats(dst + j, E::load(src + n + j));
      }
      for (; j < count; ++j) {
        dst[j] = E::load1(src + n + j);
      }
      for (; j < nr; ++j) {
        dst[j] = 0.0f;
      }
    }
  }
}

// Packs panel by panel, as many rows at a time as a vector has lanes.
template <typename E>
void load_panels(const LoadCall& call, int64_t nr) {
  if (call.column_stride == 1) {
    load_row_panels<E>(call, nr);
    return;
  }
  for (int64_t n = 0; n < call.columns; n += nr) {
    LoadCall panel = call;
    panel.src = static_cast<const typename E::Element*>(call.src) + n * call.column_stride;
    panel.columns = call.columns - n < nr ? call.columns - n : nr;
    panel.dst = call.dst + n * call.rows;
    panel.stride = nr;
    load_elements<E>(panel);
    for (int64_t k = 0; k < (panel.columns < nr ? call.rows : 0); ++k) {
      for (int64_t j = panel.columns; j < nr; ++j) {
        panel.dst[k * nr + j] = 0.0f;
      }
    }
  }
}

template <typename E>
void store_elements(const float* src, int64_t count, void* to) {
  auto* dst = static_cast<typename E::Element*>(to);
  int64_t i = 0;
  for (; i + E::kLanes <= count; i += E::kLanes) {
    E::store(dst + i, E::load_floats(src + i));
  }
  for (; i < count; ++i) {
    E::store1(dst + i, src[i]);
  }
}

template <typename Elements>
void load_block(const LoadCall& call) {
  switch (call.type) {
    case DataType::f32:
      return load_elements<typename Elements::F32>(call);
    case DataType::bf16:
      return load_elements<typename Elements::Bf16>(call);
    case DataType::f16:
      return load_elements<typename Elements::F16>(call);
    default:
      __builtin_unreachable();
  }
}

template <typename Elements>
void load_panel_block(const LoadCall& call, int64_t nr) {
  switch (call.type) {
    case DataType::f32:
      return load_panels<typename Elements::F32>(call, nr);
    case DataType::bf16:
      return load_panels<typename Elements::Bf16>(call, nr);
    case DataType::f16:
      return load_panels<typename Elements::F16>(call, nr);
    default:
      __builtin_unreachable();
  }
}

template <typename Elements>
void store_run(const float* src, int64_t count, void* dst, DataType type) {
  switch (type) {
    case DataType::f32:
      return store_elements<typename Elements::F32>(src, count, dst);
    case DataType::bf16:
      return store_elements<typename Elements::Bf16>(src, count, dst);
    case DataType::f16:
      return store_elements<typename Elements::F16>(src, count, dst);
    default:
      __builtin_unreachable();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels

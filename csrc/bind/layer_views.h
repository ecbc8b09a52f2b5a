// LayerViews: the keys and values that a layer of a Python cache holds.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

namespace cpuaccel {

// The value of an attribute; an empty object if there is none.
pybind11::object attribute_of(pybind11::handle object, pybind11::handle name);

// The tensors that a layer of a cache holds, views of buffers with spare positions.
class LayerViews {
 public:
  // `names`: the layer's attributes; `tensors`: their values, positions [begin, end) of the
  // buffers.
  LayerViews(const pybind11::tuple& names, const pybind11::sequence& tensors, int64_t begin,
             int64_t end);

  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

  // Whether the layer holds these very tensors, and their memory has not been replaced.
  bool are_held_by(pybind11::handle layer) const;

  // Lets the tensors have the positions [begin, end) of their buffers. Returns false, and changes
  // nothing, if they are not the layer's, or if others hold one of them: those keep what they have.
  bool resize(pybind11::handle layer, int64_t begin, int64_t end);

 private:
  struct View {
    pybind11::object name, tensor;
    const void* address;
  };

  bool is_held_by(pybind11::handle layer, const View& view) const;
  bool is_held_by_nobody_else(const View& view) const;

  std::vector<View> views_;
  int64_t begin_, end_;
};

void bind_layer_views(pybind11::module_& module);

}  // namespace cpuaccel

#include "bind/layer_places.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bind/layer_views.h"
#include "bind/torch_compat.h"
#include "ops/region/cache_places.h"

namespace cpuaccel {
namespace {

namespace py = pybind11;

const py::str& interned(const char* name) {
  // Never freed: the interpreter may be gone when static objects are.
  return *new py::str(py::reinterpret_steal<py::str>(PyUnicode_InternFromString(name)));
}

at::Tensor tensor_or_none(py::handle object) {
  return object.is_none() ? at::Tensor() : THPVariable_Unpack(object.ptr());
}

// The caches of all attentions of one call, as Python holds them. A call takes the places of all of
// them, enters, and leaves; the next one takes them again. In Python, these loops over layers take
// as long as some of a small model's products: the objects are cold in each call.
class LayerPlaces {
 public:
  // `held`: for each attention (layer's number, layer, room, views, begin, end, buffers, factor of
  // the scores, soft cap, sinks, number of its mask). Without a room, it attends to an encoder's
  // layer, which stays as it is. The places in rooms are taken already, behind positions [begin,
  // end). `views` is None if the layer holds no views of the buffers.
  LayerPlaces(int64_t tokens, const py::sequence& held)
      : tokens_(tokens), native_(tokens, caches_of(held)) {
    for (const auto& each : held) {
      const py::tuple given = py::reinterpret_borrow<py::tuple>(each);
      Attention made;
      made.number = given[0].cast<size_t>();
      made.layer = given[1];
      made.room = given[2];
      made.set_views(given[3]);
      made.mask = given[kMask].cast<size_t>();
      if (!made.room.is_none()) {
        made.newest = made.room.attr("newest").cast<py::list>();
        made.window = made.room.attr("window").cast<int64_t>();
        made.is_taken = true;
      }
      attentions_.push_back(std::move(made));
    }
  }

  // Takes the places behind what the layers hold. Returns false if one of them does not hold what
  // this object has left there: then no place is taken.
  bool take(const py::list& layers, const py::list& encoded) {
    for (size_t i = 0; i < attentions_.size(); ++i) {
      auto& each = attentions_[i];
      const auto& found = each.room.is_none() ? encoded : layers;
      if (each.number >= found.size() ||
          PyList_GET_ITEM(found.ptr(), static_cast<py::ssize_t>(each.number)) != each.layer.ptr() ||
          !(each.room.is_none() ? holds_states(i) : take_one(i))) {
        give_back_all();
        return false;
      }
    }
    return true;
  }

  // `masks`: (tensor of floats or None, window) each.
  void enter(const py::sequence& masks) {
    std::vector<ops::CallMask> of_attentions;
    of_attentions.reserve(attentions_.size());
    for (const auto& each : attentions_) {
      const py::tuple mask = masks[each.mask];
      of_attentions.push_back({tensor_or_none(mask[0]), mask[1].cast<int64_t>()});
    }
    native_.enter(std::move(of_attentions));
  }

  void give_back(size_t number) {
    if (number < attentions_.size()) {
      give_back(attentions_[number]);
    }
  }

  // Lets the layers hold what steps have written. Gives places back that no step has written to,
  // and all of them if the call has `failed`. Returns whether it gave back none.
  bool leave(bool failed) {
    const auto done = native_.leave();
    for (size_t i = 0; i < attentions_.size() && !failed; ++i) {
      if (done[i] && attentions_[i].is_taken) {
        keep(i);
      }
    }
    return !give_back_all() && !failed;
  }

 private:
  static constexpr size_t kMask = 10;  // of what the constructor gets

  struct Attention {
    size_t number = 0, mask = 0;
    py::object layer, room, views;
    LayerViews* held = nullptr;  // of `views`; null: None
    py::list newest;             // of the room: empty while somebody writes behind the newest views
    int64_t window = 0;
    bool is_taken = false;

    void set_views(py::object made) {
      held = made.is_none() ? nullptr : &made.cast<LayerViews&>();
      views = std::move(made);
    }
  };

  static std::vector<ops::LayerCache> caches_of(const py::sequence& held) {
    std::vector<ops::LayerCache> made;
    for (const auto& each : held) {
      const py::tuple given = py::reinterpret_borrow<py::tuple>(each);
      std::vector<at::Tensor> buffers;
      for (const auto& buffer : given[6].cast<py::tuple>()) {
        buffers.push_back(tensor_or_none(buffer));
      }
      buffers.resize(4);
      made.push_back({buffers[0], buffers[1], buffers[2], buffers[3], given[4].cast<int64_t>(),
                      given[5].cast<int64_t>(), given[7].cast<float>(), given[8].cast<float>(),
                      tensor_or_none(given[9])});
    }
    return made;
  }

  // Whether an encoder's layer has the keys and values that it had.
  bool holds_states(size_t i) const {
    const auto& cache = native_.cache(i);
    return attentions_[i].held != nullptr &&
           attentions_[i].held->are_held_by(attentions_[i].layer) &&
           cache.keys.size(2) == cache.used;
  }

  bool take_one(size_t i) {
    static const py::str& room_name = interned("_cpuaccel_room");
    static const py::str& record_name = interned("record_past");
    auto& each = attentions_[i];
    auto* newest = each.newest.ptr();
    if (each.held == nullptr || !attribute_of(each.layer, room_name).is(each.room) ||
        PyList_GET_SIZE(newest) != 1 || PyList_GET_ITEM(newest, 0) != each.views.ptr()) {
      return false;
    }
    // From here on, no other thread takes it.
    if (PyList_SetSlice(newest, 0, 1, nullptr) < 0) {
      throw py::error_already_set();
    }
    each.is_taken = true;
    if (each.window > 0) {
      const auto recorded = attribute_of(each.layer, record_name);
      if (recorded && recorded.cast<bool>()) {
        return false;
      }
    }
    const auto& cache = native_.cache(i);
    return cache.used + tokens_ <= cache.keys.size(2) && each.held->are_held_by(each.layer);
  }

  bool give_back(Attention& each) {
    if (!std::exchange(each.is_taken, false)) {
      return false;
    }
    if (each.held != nullptr) {
      each.newest.append(each.views);
    }
    return true;
  }

  bool give_back_all() {
    bool any = false;
    for (auto& each : attentions_) {
      any = give_back(each) || any;
    }
    return any;
  }

  void keep(size_t i) {
    static const py::str& length_name = interned("cumulative_length");
    auto& each = attentions_[i];
    each.is_taken = false;
    int64_t begin = native_.cache(i).begin;
    const int64_t end = native_.cache(i).used + tokens_;
    if (each.window > 0) {
      begin = std::max(begin, end - each.window + 1);
    }
    if (each.held != nullptr && each.held->resize(each.layer, begin, end)) {
      if (each.window > 0) {
        const py::object length = each.layer.attr(length_name);
        py::setattr(each.layer, length_name, length + py::int_(tokens_));
      }
      each.newest.append(each.views);
    } else {
      each.set_views(each.room.attr("hold")(each.layer, begin, end, tokens_));
    }
    native_.continue_at(i, begin, end);
  }

  int64_t tokens_;
  ops::CachePlaces native_;
  std::vector<Attention> attentions_;
};

}  // namespace

void bind_layer_places(py::module_& module) {
  py::class_<LayerPlaces>(module, "LayerPlaces")
      .def(py::init<int64_t, const py::sequence&>(), py::arg("tokens"), py::arg("held"))
      .def("take", &LayerPlaces::take, py::arg("layers"), py::arg("encoded"))
      .def("enter", &LayerPlaces::enter, py::arg("masks"))
      .def("give_back", py::overload_cast<size_t>(&LayerPlaces::give_back), py::arg("number"))
      .def("leave", &LayerPlaces::leave, py::arg("failed"));
}

}  // namespace cpuaccel

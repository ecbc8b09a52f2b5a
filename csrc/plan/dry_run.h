// A dry run of the builder: it reports which steps a layer would get and adds none.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/build.h"

namespace cpuaccel::plan {

class DryRun : public Building {
 public:
  explicit DryRun(Building& building) : building_(building) {}

  DataType type(Id id) const override { return building_.type(id); }
  const TensorDesc& desc(Id id) const override {
    const auto found = descs_.find(id);
    return found != descs_.end() ? found->second : building_.desc(id);
  }
  bool is_constant(Id id) const override { return building_.is_constant(id); }
  const void* constant(Id id) const override { return building_.constant(id); }
  bool may_overwrite(Id to, Id from) const override { return building_.may_overwrite(to, from); }
  bool is_in_place(Id to, Id from) const override { return building_.is_in_place(to, from); }
  PackedWeights& packed() override { return building_.packed(); }
  bool fast_math() const override { return building_.fast_math(); }
  bool alias(Id, Id, const TensorDesc&, int64_t) override { return false; }
  std::vector<Id>& derived(Id from, const std::string& how) override {
    return derived_[{from, how}];
  }
  Id new_value(DataType type) override { return building_.new_value(type); }
  void add(std::unique_ptr<Step> step) override {
    for (size_t i = 0; i < step->outputs.size(); ++i) {
      descs_.insert_or_assign(step->outputs[i], step->output_descs[i]);
    }
  }

 private:
  Building& building_;
  std::unordered_map<Id, TensorDesc> descs_;  // of the outputs of steps
  std::map<std::pair<Id, std::string>, std::vector<Id>> derived_;
};

}  // namespace cpuaccel::plan

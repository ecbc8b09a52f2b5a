// What ran where, and why something did not: the counts behind cpuaccel.stats().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cpuaccel {

// Ops that are counted; relu forms count under the op they fuse with.
enum class Op : int {
  linear,
  linear_dynamic,
  linear_leaky_relu,
  linear_tanh,
  conv2d,
  conv3d,
  conv_transpose2d,
  conv_transpose3d,
  conv2d_add,
  conv_dynamic,
  count_
};

// Who does the work. `intree` is torch's own kernel, called by an object of ours.
enum class Provider : int { onednn, fbgemm, intree, count_ };

const char* op_name(Op op);
const char* provider_name(Provider provider);

// Relaxed counters, one per op and provider: cheap enough for every call.
class CallCounters {
 public:
  void add(Op op, Provider provider) { at(op, provider).fetch_add(1, std::memory_order_relaxed); }
  // "conv2d.onednn" -> count, only those that are not zero.
  std::map<std::string, int64_t> snapshot() const;
  void reset();

 private:
  static constexpr size_t kOps = static_cast<size_t>(Op::count_);
  static constexpr size_t kProviders = static_cast<size_t>(Provider::count_);
  std::atomic<int64_t>& at(Op op, Provider provider) {
    return counts_[static_cast<size_t>(op) * kProviders + static_cast<size_t>(provider)];
  }
  std::array<std::atomic<int64_t>, kOps * kProviders> counts_{};
};

CallCounters& calls();
CallCounters& prepacks();

// Fallbacks to torch's own kernel, counted under "op: reason". Rare, so a map under a lock.
void count_fallback(std::string_view op, std::string_view reason);
std::map<std::string, int64_t> fallbacks();

// Bytes of packed weights now held by objects of ours.
std::atomic<int64_t>& packed_weight_bytes();

// All counts to zero; bytes held stay.
void reset_counters();

}  // namespace cpuaccel

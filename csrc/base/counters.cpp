#include "base/counters.h"

#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "base/fork.h"

namespace cpuaccel {
namespace {

struct FallbackCounts {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  // By op, then by reason: a call that is counted for the second time allocates nothing.
  std::map<std::string, std::map<std::string, int64_t, std::less<>>, std::less<>> counts;
};

// Never destroyed: ops may still run while the process exits.
FallbackCounts& fallback_counts() {
  static auto& counts = *std::make_unique<FallbackCounts>().release();
  return counts;
}

}  // namespace

const char* op_name(Op op) {
#define CPUACCEL_NAME(name) #name,
  constexpr std::array kNames{CPUACCEL_COUNTED_OPS(CPUACCEL_NAME) "?"};
#undef CPUACCEL_NAME
  static_assert(kNames.size() == static_cast<size_t>(Op::count_) + 1);
  return kNames[static_cast<size_t>(op)];
}

const char* provider_name(Provider provider) {
  switch (provider) {
    case Provider::own:
      return "cpuaccel";
    case Provider::onednn:
      return "onednn";
    case Provider::fbgemm:
      return "fbgemm";
    case Provider::intree:
      return "intree";
    case Provider::count_:
      break;
  }
  return "?";
}

std::map<std::string, int64_t> CallCounters::snapshot() const {
  std::map<std::string, int64_t> result;
  for (size_t op = 0; op < kOps; ++op) {
    for (size_t provider = 0; provider < kProviders; ++provider) {
      const int64_t count = counts_[op * kProviders + provider].load(std::memory_order_relaxed);
      if (count != 0) {
        result[std::string(op_name(static_cast<Op>(op))) + "." +
               provider_name(static_cast<Provider>(provider))] = count;
      }
    }
  }
  return result;
}

void CallCounters::reset() {
  for (auto& count : counts_) {
    count.store(0, std::memory_order_relaxed);
  }
}

CallCounters& calls() {
  static CallCounters counters;
  return counters;
}

CallCounters& prepacks() {
  static CallCounters counters;
  return counters;
}

void count_fallback(std::string_view op, std::string_view reason) {
  auto& state = fallback_counts();
  const std::scoped_lock lock(state.mutex);
  auto of_op = state.counts.find(op);
  if (of_op == state.counts.end()) {
    of_op = state.counts.try_emplace(std::string(op)).first;
  }
  const auto found = of_op->second.find(reason);
  if (found == of_op->second.end()) {
    of_op->second.emplace(reason, 1);
  } else {
    ++found->second;
  }
}

std::map<std::string, int64_t> fallbacks() {
  auto& state = fallback_counts();
  const std::scoped_lock lock(state.mutex);
  std::map<std::string, int64_t> result;
  for (const auto& [op, reasons] : state.counts) {
    for (const auto& [reason, count] : reasons) {
      result[op + ": " + reason] = count;
    }
  }
  return result;
}

std::atomic<int64_t>& packed_weight_bytes() {
  static std::atomic<int64_t> bytes{0};
  return bytes;
}

void reset_counters() {
  calls().reset();
  prepacks().reset();
  auto& state = fallback_counts();
  const std::scoped_lock lock(state.mutex);
  state.counts.clear();
}

}  // namespace cpuaccel

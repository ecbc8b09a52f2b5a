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
  // By op, then by reason. Entries are never removed: threads hold pointers to them.
  using ByReason = std::map<std::string, std::atomic<int64_t>, std::less<>>;
  std::map<std::string, ByReason, std::less<>> counts;
};

// A count that a thread has looked up before.
struct CachedCount {
  std::string_view op, reason;  // views of the maps' keys
  std::atomic<int64_t>* count = nullptr;
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
    case Provider::cpuaccel:
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
  // A model repeats the same few fallbacks, so these take no lock and no lookup.
  constexpr size_t kSlots = 16;
  thread_local std::array<CachedCount, kSlots> cached;
  auto& slot = cached[(op.size() * 7 + reason.size()) % kSlots];
  if (slot.count == nullptr || slot.op != op || slot.reason != reason) {
    auto& state = fallback_counts();
    const std::scoped_lock lock(state.mutex);
    const auto of_op = state.counts.try_emplace(std::string(op)).first;
    const auto found = of_op->second.try_emplace(std::string(reason), 0).first;
    slot = {of_op->first, found->first, &found->second};
  }
  slot.count->fetch_add(1, std::memory_order_relaxed);
}

std::map<std::string, int64_t> fallbacks() {
  auto& state = fallback_counts();
  const std::scoped_lock lock(state.mutex);
  std::map<std::string, int64_t> result;
  for (const auto& [op, reasons] : state.counts) {
    for (const auto& [reason, count] : reasons) {
      if (const int64_t found = count.load(std::memory_order_relaxed); found != 0) {
        result[op + ": " + reason] = found;
      }
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
  for (auto& [op, reasons] : state.counts) {
    for (auto& [reason, count] : reasons) {
      count.store(0, std::memory_order_relaxed);
    }
  }
}

}  // namespace cpuaccel

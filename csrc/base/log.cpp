#include "base/log.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fork.h"

namespace cpuaccel {
namespace {

struct LogState {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink;
  std::atomic<bool> enabled{false};
  ForkGuard guard{mutex, [] {}};
};

LogState& state() {
  static auto& instance = *std::make_unique<LogState>().release();
  return instance;
}

}  // namespace

void set_log_sink(LogSink sink) {
  const bool enabled = static_cast<bool>(sink);
  auto shared = enabled ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  {
    const std::scoped_lock lock(state().mutex);
    state().sink.swap(shared);
  }
  state().enabled.store(enabled, std::memory_order_relaxed);
}

bool log_enabled() { return state().enabled.load(std::memory_order_relaxed); }

void log_decision(const std::string& message) {
  std::shared_ptr<const LogSink> sink;
  {
    const std::scoped_lock lock(state().mutex);
    sink = state().sink;
  }
  if (sink) {
    (*sink)(message);
  }
}

}  // namespace cpuaccel

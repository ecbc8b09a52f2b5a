#include "base/log.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fork.h"

namespace cpuaccel {
namespace {

struct LogState {
  std::mutex& mutex = fork_safe_mutex(ForkLevel::leaf, this);
  std::shared_ptr<const LogSink> sink;
  std::atomic<bool> enabled{false};
};

LogState& state() {
  static auto& instance = *std::make_unique<LogState>().release();
  return instance;
}

struct Deferred {
  int depth = 0;
  std::vector<std::string> messages;
};
thread_local Deferred t_deferred;

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
  if (t_deferred.depth > 0) {
    t_deferred.messages.push_back(message);
    return;
  }
  std::shared_ptr<const LogSink> sink;
  {
    const std::scoped_lock lock(state().mutex);
    sink = state().sink;
  }
  if (sink) {
    (*sink)(message);
  }
}

DeferredLogs::DeferredLogs() { ++t_deferred.depth; }

DeferredLogs::~DeferredLogs() {
  if (--t_deferred.depth > 0) {
    return;
  }
  const auto messages = std::exchange(t_deferred.messages, {});
  for (const auto& message : messages) {
    log_decision(message);
  }
}

}  // namespace cpuaccel

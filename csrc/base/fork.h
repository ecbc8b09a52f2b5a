// Fork-safe locks and caches: after fork(), the child finds every lock free and its data
// consistent.
#pragma once

#include <functional>
#include <mutex>

#include "base/api.h"

namespace cpuaccel {

// Levels in locking order, outermost first; a thread never holds two locks of one level.
enum class ForkLevel : int { params, layer, kernel, leaf, memory, pages, count_ };

// The mutex for `owner` at `level`. It lives as long as the process and may be shared by several
// owners. The thread that forks holds all of them, in the order of their levels.
CPUACCEL_API std::mutex& fork_safe_mutex(ForkLevel level, const void* owner);

// `reset` runs in every forked child while all locks are held, so it must not take any.
CPUACCEL_API void reset_after_fork(std::function<void()> reset);

}  // namespace cpuaccel

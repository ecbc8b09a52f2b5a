// Locks and caches across fork(): the child finds every lock free and what it guards consistent.
#pragma once

#include <functional>
#include <mutex>

namespace cpuaccel {

// Order in which locks nest, outermost first; two of one level are never held together.
enum class ForkLevel : int { params, layer, kernel, leaf, memory, pages, count_ };

// The mutex for `owner` at `level`. It lives as long as the process and may be shared by several
// owners. The thread that forks holds all of them, in the order of their levels.
std::mutex& fork_safe_mutex(ForkLevel level, const void* owner);

// `reset` runs in every forked child while all locks are held: it must take none.
void reset_after_fork(std::function<void()> reset);

}  // namespace cpuaccel

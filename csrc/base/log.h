// Decisions as text, for TORCH_LOGS="+cpuaccel". Never called while a lock is held: the sink may
// need Python's interpreter lock.
#pragma once

#include <functional>
#include <string>

namespace cpuaccel {

using LogSink = std::function<void(const std::string&)>;

// Replaces the sink; an empty one switches logging off.
void set_log_sink(LogSink sink);

// True if somebody listens; ask before building a message.
bool log_enabled();

void log_decision(const std::string& message);

}  // namespace cpuaccel

// Decisions as text, for TORCH_LOGS="+cpuaccel". The sink may need Python's interpreter lock, so no
// message reaches it while a lock of ours is held: who takes one defers messages around it.
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

// While one lives, the calling thread's messages wait; they are sent when the outermost one ends.
class DeferredLogs {
 public:
  DeferredLogs();
  ~DeferredLogs();
  DeferredLogs(const DeferredLogs&) = delete;
  DeferredLogs& operator=(const DeferredLogs&) = delete;
};

}  // namespace cpuaccel

// Log of cpuaccel's decisions, for TORCH_LOGS="+cpuaccel". The sink may need Python's interpreter
// lock, so no message may reach it while a cpuaccel lock is held: code that takes one defers its
// messages.
#pragma once

#include <functional>
#include <string>

#include "base/api.h"

namespace cpuaccel {

using LogSink = std::function<void(const std::string&)>;

// Replaces the sink; an empty sink switches logging off.
CPUACCEL_API void set_log_sink(LogSink sink);

// True if there is a sink; check this before building a message.
CPUACCEL_API bool log_enabled();

CPUACCEL_API void log_decision(const std::string& message);

// While an object exists, the calling thread's messages wait. They are sent when the outermost
// object is destroyed.
class CPUACCEL_API DeferredLogs {
 public:
  DeferredLogs();
  ~DeferredLogs();
  DeferredLogs(const DeferredLogs&) = delete;
  DeferredLogs& operator=(const DeferredLogs&) = delete;
};

}  // namespace cpuaccel

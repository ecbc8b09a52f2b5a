// CPUACCEL_API marks what libcpuaccel_core.so exports: the interface that the code with torch uses.
// Everything else is compiled with hidden visibility.
#pragma once

#define CPUACCEL_API [[gnu::visibility("default")]]

// Includes oneDNN's API under cpuaccel's own symbol names. Every file that uses oneDNN includes
// this and no other oneDNN header, because torch ships a dnnl.hpp of another version.
#pragma once

#include <cpuaccel_dnnl_symbols.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_graph.hpp>

#if DNNL_VERSION_MAJOR != 3 || DNNL_VERSION_MINOR < 2
#error "cpuaccel needs oneDNN 3.2 or a later 3.x; is another dnnl.hpp first on the include path?"
#endif

#include <string>

namespace cpuaccel::dnnl_layer {

// "3.2.0": the version of the headers that this was compiled against.
inline std::string compiled_version() {
  return std::to_string(DNNL_VERSION_MAJOR) + "." + std::to_string(DNNL_VERSION_MINOR) + "." +
         std::to_string(DNNL_VERSION_PATCH);
}

// "3.2.0": the version of the library in this process.
inline std::string runtime_version() {
  const auto* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

// Whether major and minor agree: the C API is stable within them.
inline bool versions_agree() {
  const auto* version = dnnl_version();
  return version->major == DNNL_VERSION_MAJOR && version->minor == DNNL_VERSION_MINOR;
}

}  // namespace cpuaccel::dnnl_layer

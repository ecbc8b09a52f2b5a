# libcpuaccel_core.so: base, kernels, memory, dnnl, plan and quant, without torch. One file serves the shims of
# all torch versions. It exports what CPUACCEL_API marks (csrc/base/api.h).
set(CPUACCEL_CORE_PARTS cpuaccel_base cpuaccel_kernels cpuaccel_memory cpuaccel_quant)
if(CPUACCEL_HAS_ONEDNN)
  list(APPEND CPUACCEL_CORE_PARTS cpuaccel_dnnl_layer cpuaccel_plan)
endif()
set(objects "")
foreach(part IN LISTS CPUACCEL_CORE_PARTS)
  list(APPEND objects "$<TARGET_OBJECTS:${part}>")
endforeach()

# Linked from all objects, because steps register themselves and only shims call some functions.
add_library(cpuaccel_core SHARED ${objects})
set_target_properties(cpuaccel_core PROPERTIES
  LINKER_LANGUAGE CXX
  INSTALL_RPATH "$ORIGIN"
  BUILD_WITH_INSTALL_RPATH ON)
target_include_directories(cpuaccel_core INTERFACE "${PROJECT_SOURCE_DIR}/csrc")
# Calls inside the core are direct, and no other library's symbols take their place.
target_link_options(cpuaccel_core PRIVATE -Wl,-Bsymbolic -Wl,--no-undefined)
if(CPUACCEL_HAS_ONEDNN)
  target_compile_definitions(cpuaccel_core INTERFACE CPUACCEL_HAS_ONEDNN)
  # The shims link it before torch, whose headers include a dnnl.hpp of another version.
  target_link_libraries(cpuaccel_core PUBLIC cpuaccel_onednn PRIVATE OpenMP::OpenMP_CXX)
endif()
install(TARGETS cpuaccel_core LIBRARY DESTINATION cpuaccel/lib)

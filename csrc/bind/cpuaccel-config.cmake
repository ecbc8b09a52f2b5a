# find_package(cpuaccel) for programs without Python: cpuaccel::cpuaccel, which brings its header.
#
# find_package(Torch) is the program's own and comes first: its version decides which libcpuaccel.so is
# linked. Without it, the package may have one only.
get_filename_component(cpuaccel_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
file(GLOB cpuaccel_LIBRARIES "${cpuaccel_ROOT}/torch_*/libcpuaccel.so")
if(Torch_VERSION MATCHES "^([0-9]+)\\.([0-9]+)")
  set(cpuaccel_LIBRARY
      "${cpuaccel_ROOT}/torch_${CMAKE_MATCH_1}_${CMAKE_MATCH_2}/libcpuaccel.so")
else()
  set(cpuaccel_LIBRARY "${cpuaccel_LIBRARIES}")
endif()
if(NOT cpuaccel_LIBRARY IN_LIST cpuaccel_LIBRARIES)
  set(cpuaccel_FOUND FALSE)
  list(JOIN cpuaccel_LIBRARIES ", " cpuaccel_LIBRARIES)
  set(cpuaccel_NOT_FOUND_MESSAGE
      "cpuaccel has no library for torch \"${Torch_VERSION}\". Call find_package(Torch) before. "
      "It has: ${cpuaccel_LIBRARIES}")
  return()
endif()
if(NOT TARGET cpuaccel::cpuaccel)
  add_library(cpuaccel::cpuaccel SHARED IMPORTED)
  set_target_properties(cpuaccel::cpuaccel PROPERTIES
    IMPORTED_LOCATION "${cpuaccel_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${cpuaccel_ROOT}/include")
endif()
set(cpuaccel_FOUND TRUE)

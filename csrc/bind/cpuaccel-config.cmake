# find_package(cpuaccel) for programs without Python: cpuaccel::cpuaccel, which brings its header.
#
# find_package(Torch) is the program's own: it has to be the torch that cpuaccel was built for
# (cpuaccel::torch_version() says which).
get_filename_component(cpuaccel_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET cpuaccel::cpuaccel)
  add_library(cpuaccel::cpuaccel SHARED IMPORTED)
  set_target_properties(cpuaccel::cpuaccel PROPERTIES
    IMPORTED_LOCATION "${cpuaccel_ROOT}/lib/libcpuaccel.so"
    INTERFACE_INCLUDE_DIRECTORIES "${cpuaccel_ROOT}/include")
endif()
set(cpuaccel_FOUND TRUE)

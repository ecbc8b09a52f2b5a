# The torches that shims are built for, straight from installed or unpacked wheels.
#
# CPUACCEL_TORCH_DIRS lists directories with torch's `include` and `lib`, one for each minor version
# (tools/unpack_torch.py makes them). By default it is the torch of the Python that builds.
# find_package(Torch) is not used: with a CUDA build of torch it asks for a CUDA toolkit, which a
# CPU plugin does not need.
execute_process(
  COMMAND ${Python_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/find_torch.py"
  OUTPUT_VARIABLE CPUACCEL_INSTALLED_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CPUACCEL_TORCH_DIRS "$ENV{CPUACCEL_TORCH_DIRS}" CACHE STRING
    "Directories of the torches to build shims for; empty: the installed one")
set(CPUACCEL_TORCHES "${CPUACCEL_TORCH_DIRS}")
if(NOT CPUACCEL_TORCHES)
  set(CPUACCEL_TORCHES "${CPUACCEL_INSTALLED_TORCH}")
endif()
if(NOT CPUACCEL_TORCHES)
  message(FATAL_ERROR "torch is not installed in the Python that builds cpuaccel, "
                      "${Python_EXECUTABLE}, and CPUACCEL_TORCH_DIRS is empty")
endif()

# cpuaccel_torch_package(DIR): facts of one torch, for the folders of a shim.
#
# Sets CPUACCEL_TORCH (2_13), CPUACCEL_TORCH_MINOR (2.13), CPUACCEL_TORCH_VERSION (2.13.0),
# CPUACCEL_TORCH_DIR, CPUACCEL_HAS_FBGEMM and CPUACCEL_HAS_QUANTIZED_TENSORS. CPUACCEL_SHIM_FOLDERS are the
# folders of csrc that the shim consists of, CPUACCEL_SHIM_OBJECTS their targets. Makes the target
# cpuaccel_torch_${CPUACCEL_TORCH}.
macro(cpuaccel_torch_package dir)
  set(CPUACCEL_TORCH_DIR "${dir}")
  set(version_header "${dir}/include/torch/headeronly/version.h")
  if(NOT EXISTS "${version_header}")
    message(FATAL_ERROR "CPUACCEL_TORCH_DIRS: ${dir} has no include/torch/headeronly/version.h. "
                        "Expected the folder `torch` of an installed or unpacked wheel")
  endif()
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    file(STRINGS "${version_header}" line REGEX "define TORCH_VERSION_${part} ")
    string(REGEX REPLACE ".* " "" torch_${part} "${line}")
  endforeach()
  set(CPUACCEL_TORCH "${torch_MAJOR}_${torch_MINOR}")
  set(CPUACCEL_TORCH_MINOR "${torch_MAJOR}.${torch_MINOR}")
  set(CPUACCEL_TORCH_VERSION "${CPUACCEL_TORCH_MINOR}.${torch_PATCH}")
  set(CPUACCEL_OPS cpuaccel_ops_${CPUACCEL_TORCH})
  set(CPUACCEL_FBGEMM cpuaccel_fbgemm_${CPUACCEL_TORCH})
  set(CPUACCEL_TORCH_AO cpuaccel_torch_ao_${CPUACCEL_TORCH})
  set(CPUACCEL_HAS_FBGEMM OFF)
  if(CPUACCEL_WITH_FBGEMM AND CPUACCEL_ARCHITECTURE STREQUAL "x86"
     AND EXISTS "${dir}/include/fbgemm/Fbgemm.h")
    set(CPUACCEL_HAS_FBGEMM ON)
  endif()
  # Objects, so that each is linked although nothing calls it: they register themselves.
  set(CPUACCEL_SHIM_FOLDERS ops)
  set(CPUACCEL_SHIM_OBJECTS ${CPUACCEL_OPS})
  set(CPUACCEL_HAS_QUANTIZED_TENSORS OFF)
  if(CPUACCEL_WITH_QUANTIZED_TENSORS AND EXISTS "${dir}/include/ATen/native/quantized/PackedParams.h")
    set(CPUACCEL_HAS_QUANTIZED_TENSORS ON)
    list(APPEND CPUACCEL_SHIM_FOLDERS torch_ao)
    list(APPEND CPUACCEL_SHIM_OBJECTS ${CPUACCEL_TORCH_AO})
  endif()
  list(APPEND CPUACCEL_SHIM_FOLDERS bind)
  if(CPUACCEL_HAS_FBGEMM)
    list(PREPEND CPUACCEL_SHIM_FOLDERS fbgemm)
    list(APPEND CPUACCEL_SHIM_OBJECTS ${CPUACCEL_FBGEMM})
  endif()
  message(STATUS "torch ${CPUACCEL_TORCH_VERSION} in ${dir}, FBGEMM: ${CPUACCEL_HAS_FBGEMM}, "
                 "quantized tensors: ${CPUACCEL_HAS_QUANTIZED_TENSORS}")

  add_library(cpuaccel_torch_${CPUACCEL_TORCH} INTERFACE)
  target_include_directories(cpuaccel_torch_${CPUACCEL_TORCH} SYSTEM INTERFACE
    "${dir}/include" "${dir}/include/torch/csrc/api/include")
  target_link_libraries(cpuaccel_torch_${CPUACCEL_TORCH} INTERFACE
    "${dir}/lib/libtorch_cpu.so" "${dir}/lib/libc10.so" OpenMP::OpenMP_CXX)
  # at::parallel_for is silently serial in a translation unit compiled without OpenMP.
  target_compile_options(cpuaccel_torch_${CPUACCEL_TORCH} INTERFACE ${OpenMP_CXX_FLAGS})
endmacro()

# Half of the time that a file takes to compile is these, which nearly all include.
function(cpuaccel_precompile_torch target)
  target_precompile_headers(${target} PRIVATE
    <torch/library.h> <ATen/core/Tensor.h> <ATen/EmptyTensor.h>)
endfunction()

# torch's headers and libraries, straight from the installed wheel.
#
# find_package(Torch) is not used: with a CUDA build of torch it asks for a CUDA toolkit, which a
# CPU plugin does not need. -DCPUACCEL_TORCH_INCLUDE=DIR compiles against other headers (no link).
execute_process(
  COMMAND ${Python_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/find_torch.py"
  OUTPUT_VARIABLE CPUACCEL_TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
list(GET CPUACCEL_TORCH_FACTS 0 CPUACCEL_TORCH_DIR)
list(GET CPUACCEL_TORCH_FACTS 1 CPUACCEL_TORCH_VERSION)

set(CPUACCEL_TORCH_INCLUDE "${CPUACCEL_TORCH_DIR}/include" CACHE PATH "torch's include directory")
message(STATUS "torch ${CPUACCEL_TORCH_VERSION}, headers in ${CPUACCEL_TORCH_INCLUDE}")

add_library(cpuaccel_torch INTERFACE)
target_include_directories(cpuaccel_torch SYSTEM INTERFACE
  "${CPUACCEL_TORCH_INCLUDE}" "${CPUACCEL_TORCH_INCLUDE}/torch/csrc/api/include")
target_link_libraries(cpuaccel_torch INTERFACE
  "${CPUACCEL_TORCH_DIR}/lib/libtorch_cpu.so" "${CPUACCEL_TORCH_DIR}/lib/libc10.so")
# at::parallel_for is silently serial in a translation unit compiled without OpenMP.
target_compile_options(cpuaccel_torch INTERFACE ${OpenMP_CXX_FLAGS})
target_link_libraries(cpuaccel_torch INTERFACE OpenMP::OpenMP_CXX)

# Half of the time that a file takes to compile is these, which nearly all include.
function(cpuaccel_precompile_torch target)
  target_precompile_headers(${target} PRIVATE
    <torch/library.h> <ATen/core/Tensor.h> <ATen/EmptyTensor.h>)
endfunction()

set(CPUACCEL_HAS_FBGEMM OFF)
if(CPUACCEL_WITH_FBGEMM AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"
   AND EXISTS "${CPUACCEL_TORCH_INCLUDE}/fbgemm/Fbgemm.h")
  set(CPUACCEL_HAS_FBGEMM ON)
endif()
message(STATUS "FBGEMM provider: ${CPUACCEL_HAS_FBGEMM}")

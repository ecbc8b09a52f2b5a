# The C++ library has to be the shared one, because torch's own objects (strings, exceptions, locales)
# come from it. Some compilers' drivers, such as GCC's with a prefix of its own, link libstdc++
# statically: such an extension builds, and `import torch` ends in a segmentation fault.
#
# Says so at configure time: links a shared object and looks for a C++ library among those it needs.
# -DCPUACCEL_CHECK_SHARED_RUNTIME=OFF skips it.
option(CPUACCEL_CHECK_SHARED_RUNTIME "Stop if the compiler links its C++ library statically" ON)

function(cpuaccel_check_shared_runtime)
  set(folder "${CMAKE_BINARY_DIR}/shared_runtime")
  set(object "${folder}/${CMAKE_SHARED_MODULE_PREFIX}probe${CMAKE_SHARED_MODULE_SUFFIX}")
  file(WRITE "${folder}/probe.cpp" "#include <string>
#include <locale>
#include <stdexcept>
extern \"C\" void probe(const char* text) {
  throw std::runtime_error(std::locale().name() + std::string(text));
}
")
  file(WRITE "${folder}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.25)
project(probe LANGUAGES CXX)
add_library(probe MODULE probe.cpp)
set_target_properties(probe PROPERTIES LIBRARY_OUTPUT_DIRECTORY \"${folder}\")
")
  try_compile(linked
    PROJECT probe
    SOURCE_DIR "${folder}"
    BINARY_DIR "${folder}/build"
    CMAKE_FLAGS "-DCMAKE_MODULE_LINKER_FLAGS=${CMAKE_MODULE_LINKER_FLAGS}"
                "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
                "-DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE}"
    OUTPUT_VARIABLE output)
  if(NOT linked OR NOT EXISTS "${object}" OR NOT CMAKE_READELF)
    return()  # whatever is wrong here, the build itself says it better
  endif()
  execute_process(COMMAND "${CMAKE_READELF}" --dynamic "${object}"
    OUTPUT_VARIABLE dynamic RESULT_VARIABLE failed ERROR_QUIET)
  if(failed OR dynamic MATCHES "NEEDED[^\n]*\\[lib(std)?c\\+\\+[^\n]*\\.so")
    return()
  endif()
  message(FATAL_ERROR
    "CMAKE_CXX_COMPILER ${CMAKE_CXX_COMPILER} links the C++ library (libstdc++) statically: a shared "
    "object that it links needs no libstdc++.so. torch uses the shared one, and with two of them "
    "`import torch` ends in a segmentation fault. Use a compiler that links libstdc++.so (on Debian: "
    "CXX=/usr/bin/g++), or take -static-libstdc++ out of its flags or spec file.")
endfunction()

if(CPUACCEL_CHECK_SHARED_RUNTIME)
  cpuaccel_check_shared_runtime()
endif()

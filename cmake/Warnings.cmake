# Warnings are errors in cpuaccel's code. Headers of torch, FBGEMM and oneDNN are SYSTEM headers.
function(cpuaccel_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                           -Woverloaded-virtual -Wundef)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False positive of GCC 12 on std::string's operator+ (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(CPUACCEL_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CPUACCEL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CPUACCEL_SANITIZE}
                                             -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} INTERFACE -fsanitize=${CPUACCEL_SANITIZE})
  endif()
endfunction()

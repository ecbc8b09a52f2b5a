if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(CPUACCEL_ARCHITECTURE x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(CPUACCEL_ARCHITECTURE arm64)
endif()
if(NOT DEFINED CPUACCEL_ARCHITECTURE OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8
   OR CMAKE_CXX_BYTE_ORDER STREQUAL "BIG_ENDIAN")
  math(EXPR bits "${CMAKE_SIZEOF_VOID_P} * 8")
  message(FATAL_ERROR "cpuaccel runs on x86-64 and on 64-bit little-endian Arm, not on "
                      "${CMAKE_SYSTEM_PROCESSOR} (${bits} bits, ${CMAKE_CXX_BYTE_ORDER})")
endif()

# cpuaccel_isa_source(TARGET FILE ISA): adds one kernel source with the flags of its ISA.
#
# Their objects may export no weak symbols (tests/cpp/check_isa_objects.py checks it): an AVX-512 copy of a
# shared inline function that the linker picks for everybody is a SIGILL on an AVX2 machine.
set(CPUACCEL_FLAGS_ref "")
set(CPUACCEL_FLAGS_x86_avx2 -mavx2 -mfma -mf16c)
set(CPUACCEL_FLAGS_x86_avxvnni -mavx2 -mfma -mf16c -mavxvnni)
set(CPUACCEL_FLAGS_x86_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c
    -mprefer-vector-width=512)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's own AVX-512 headers start from undefined vectors on purpose (GCC bug 105593).
  list(APPEND CPUACCEL_FLAGS_x86_avx512 -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
set(CPUACCEL_FLAGS_x86_avx512vnni ${CPUACCEL_FLAGS_x86_avx512} -mavx512vnni)
set(CPUACCEL_FLAGS_x86_avx512bf16 ${CPUACCEL_FLAGS_x86_avx512vnni} -mavx512bf16)
set(CPUACCEL_FLAGS_x86_amx ${CPUACCEL_FLAGS_x86_avx512bf16} -mamx-tile -mamx-int8 -mamx-bf16)
set(CPUACCEL_FLAGS_x86_avx512vbmi ${CPUACCEL_FLAGS_x86_avx512vnni} -mavx512vbmi)

set(CPUACCEL_FLAGS_arm64_neon -march=armv8-a)
set(CPUACCEL_FLAGS_arm64_dotprod -march=armv8.2-a+dotprod+fp16)
set(CPUACCEL_FLAGS_arm64_i8mm ${CPUACCEL_FLAGS_arm64_dotprod}+i8mm+bf16)
set(CPUACCEL_FLAGS_arm64_sve ${CPUACCEL_FLAGS_arm64_i8mm}+sve)
set(CPUACCEL_FLAGS_arm64_sve256 ${CPUACCEL_FLAGS_arm64_sve} -msve-vector-bits=256)

function(cpuaccel_isa_source target file isa)
  if(NOT isa STREQUAL "ref" AND NOT isa MATCHES "^${CPUACCEL_ARCHITECTURE}_")
    return()
  endif()
  if(NOT DEFINED CPUACCEL_FLAGS_${isa})
    message(FATAL_ERROR "cpuaccel_isa_source: no flags known for ISA '${isa}'")
  endif()
  target_sources(${target} PRIVATE ${file})
  set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${CPUACCEL_FLAGS_${isa}}")
endfunction()

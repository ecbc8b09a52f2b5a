# Units: the sources of one topic, which are compiled together as one translation unit. Most of the time
# that a file of csrc/ops or csrc/quant takes to compile goes into the headers of torch, pybind11 and
# oneDNN and the templates that all files instantiate alike. A unit pays for them once.
#
# The unnamed namespaces of a unit's files are one. So a name at file scope says which op it belongs to,
# such as kPackedLinear or cat_fallback_reason, if other files of the unit have the like. Each file
# includes what it uses: `make compile-alone` compiles each without its unit (-DCPUACCEL_UNITS=OFF).
#
# The build waits for its longest unit. Split a unit that takes more than half a minute on one core.
option(CPUACCEL_UNITS "Compile the sources of a unit together" ON)

# cpuaccel_use_units(TARGET): before the target's units.
function(cpuaccel_use_units target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CPUACCEL_UNITS} UNITY_BUILD_MODE GROUP)
  # GCC inlines less in large translation units. Without this, a call of a small op takes 30 ns longer.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE --param=large-unit-insns=1000000)
  endif()
endfunction()

# cpuaccel_unit(TARGET UNIT FILE…): adds sources to the target, and to the unit of that name.
function(cpuaccel_unit target unit)
  target_sources(${target} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${unit})
endfunction()

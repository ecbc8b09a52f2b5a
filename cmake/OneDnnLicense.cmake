# cpuaccel_install_onednn_license(PREFIX): installs the license texts of the oneDNN in PREFIX.
#
# LICENSE and THIRD-PARTY-PROGRAMS come from the documentation folder of that oneDNN: `onednn` in
# the PyPI packages, `dnnl` or `oneDNN` in a build from source. They go to `licenses/onednn` in the
# wheel's .dist-info, beside cpuaccel's LICENSE and NOTICE. Without scikit-build-core, which sets
# SKBUILD_METADATA_DIR, they go to cpuaccel/licenses/onednn.
function(cpuaccel_install_onednn_license prefix)
  if(SKBUILD_METADATA_DIR)
    set(destination "${SKBUILD_METADATA_DIR}/licenses/onednn")
  else()
    set(destination "cpuaccel/licenses/onednn")
  endif()
  foreach(folder onednn dnnl oneDNN)
    set(texts "${prefix}/share/doc/${folder}")
    if(EXISTS "${texts}/LICENSE" AND EXISTS "${texts}/THIRD-PARTY-PROGRAMS")
      install(FILES "${texts}/LICENSE" "${texts}/THIRD-PARTY-PROGRAMS" DESTINATION "${destination}")
      return()
    endif()
  endforeach()
  message(WARNING
    "oneDNN in ${prefix} has no share/doc/{onednn,dnnl,oneDNN}/LICENSE and THIRD-PARTY-PROGRAMS. "
    "The wheel contains oneDNN without its license texts: add them before you distribute it.")
endfunction()

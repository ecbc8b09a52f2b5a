# Cross build for aarch64 on Debian: g++-12-aarch64-linux-gnu, and qemu-user to run what it makes.
#
#   CPUACCEL_SYSROOT   arm64 packages unpacked (tools/aarch64), for what needs Python and torch; the
#                      kernels alone need no more than the compiler's own libraries
#   CPUACCEL_QEMU_CPU  the core that tests run on: features of qemu's `max`
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)

set(CPUACCEL_QEMU_CPU "max,sme=off,sve256=on" CACHE STRING "Core of qemu-aarch64 for tests")
set(CMAKE_CROSSCOMPILING_EMULATOR
    "qemu-aarch64;-cpu;${CPUACCEL_QEMU_CPU};-L;/usr/aarch64-linux-gnu")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# make demo            trains, quantizes and runs a model on cpuaccel, and compares it with torch
# make test            the tests that a change needs
# make test-full       all tests: each op called in each way, sanitizers, emulated Arm cores
# make test-without-torch-ao  the int8 tests of plain tensors, with torch.ao and quantized dtypes blocked
# make test-sanitized  the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
# make compile-alone   compiles each file that belongs to a unit alone
# make test-avx512     the C++ tests on emulated x86 CPUs (GTEST_FILTER=... selects tests)
# make aarch64-kernels the C++ tests, cross-built for Arm, on emulated cores
# make aarch64         the wheel, cross-built for Arm, and tests/aarch64 on emulated cores
# make aarch64-mca     the share of Neoverse cores' peak that its inner loops reach, by llvm-mca
# make x86-mca         the same for the loops for AVX-VNNI, on a client core
# make bench           every kind of model beside other runtimes, in one table (BENCH_ARGS=--all: all)
# make docs            the site of docs/, in build/docs
# make lint            formatters, linters and type checks
# make wheel           the wheel to publish, for every torch in TORCHES
# make matrix          tests the wheel with each of these torches, in fresh environments
# make shims           compiles what uses torch for every torch in TORCHES that .venv does not have
#
# Everything is built in .venv and build/. TORCH is the requirement that pip gets. SETUP looks for the
# system's packages first, and installs the missing ones if it may; SETUP=: skips that.

PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= $(shell nproc)
SETUP := tools/setup

VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find csrc cmake cpuaccel -type f -not -name '*.pyc') CMakeLists.txt pyproject.toml LICENSE NOTICE

# Prerequisites are made one by one, in their order: setup comes first. Each uses JOBS processes.
.NOTPARALLEL:

.PHONY: setup-demo setup-test demo test test-full test-kernels test-sanitized test-avx512 \
  test-without-torch-ao compile-alone kernels-sanitized aarch64-kernels aarch64 aarch64-mca x86-mca \
  test-python bench lint format \
  wheel matrix shims docs clean

setup-demo setup-test: setup-%:
	PYTHON="$(PYTHON)" $(SETUP) $*

demo: setup-demo $(VENV)/.installed
	$(BIN)/python examples/digits_int8/demo.py

# tests/_tiers.py lists what the small tier leaves out.
test: export CPUACCEL_TEST_TIER = small
test: setup-test test-kernels test-python

test-full: export CPUACCEL_TEST_CALLS = whole
test-full: setup-test test-kernels test-python compile-alone test-sanitized aarch64-kernels

# The C++ tests, linked with the wheel's objects: each kernel is compiled once. Operands end at a
# protected page (tests/cpp/guarded.h).
test-kernels: setup-test $(VENV)/.installed
	cmake -S . -B build/wheel -DCPUACCEL_TESTS=ON
	cmake --build build/wheel --parallel $(JOBS) --target cpuaccel_kernel_tests
	ctest --test-dir build/wheel --output-on-failure --parallel $(JOBS)

# One process for each core. Each may use all threads, because what threads share is tested too.
test-python: setup-test $(VENV)/.installed
	$(PYTHON) tests/cpp/check_isa_objects.py build/wheel
	$(BIN)/pytest --numprocesses $(JOBS)

# The int8 tests except those of torch.ao's own workflows (tests/_without_torch_ao.py).
test-without-torch-ao: export CPUACCEL_TEST_WITHOUT_TORCH_AO = 1
test-without-torch-ao: setup-test $(VENV)/.installed
	$(BIN)/pytest --numprocesses $(JOBS) tests/quant tests/torchao_int8 tests/ops tests/compile \
	  tests/test_quiet.py tests/test_without_torch_ao.py

# Checks that no file needs what others of its unit include or define (cmake/Units.cmake).
compile-alone: $(VENV)/.tools
	cmake -S . -B build/alone -DCPUACCEL_UNITS=OFF -DCMAKE_BUILD_TYPE=Release \
	  -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -Dpybind11_DIR="$$($(BIN)/pybind11-config --cmakedir)"
	$(PYTHON) tools/compile_alone.py build/alone --jobs $(JOBS)

# The C++ tests and the kernels' benchmark under sanitizers. KERNELS=ref: the reference kernels and
# everything that is not a kernel of one ISA, which takes a quarter of the time.
KERNELS ?= all
test-sanitized: kernels-sanitized
	ctest --test-dir build/kernels-sanitized --output-on-failure --parallel $(JOBS)

# The C++ tests on CPUs that this machine is not: a CPU model of Bochs and its best ISA. The first run
# builds the emulator (some minutes) in build/emulator or $CPUACCEL_EMULATOR.
EMULATED ?= sapphire_rapids:avx512_vbmi corei7_skylake_x:avx512 arrow_lake:avx_vnni
test-avx512: kernels-sanitized
	set -e; for machine in $(EMULATED); do echo "== $$machine"; \
	  CPUACCEL_TEST_EMULATED=1 CPUACCEL_TEST_ISA=$${machine#*:} $(PYTHON) tools/emulator --cpu $${machine%:*} \
	    build/kernels-sanitized/tests/cpp/cpuaccel_kernel_tests; done

# The C++ tests, cross-built for Arm and run by qemu-user. ARM_CORE is like Graviton3: it runs the SVE
# kernels and the tests without kernels. Each of ARM_CORES runs the kernels of its best ISA, except
# for tests of threads. The x86 run tests the reference kernels. A core is qemu's name, a colon and
# its best ISA. Vectors of 512 bits, which no server has, take minutes:
# ARM_CORES=max,sme=off,sve512=on:sve.
ARM_CORE ?= max,sme=off,sve256=on:sve256
ARM_CORES ?= max,sme=off,sve128=on:sve max,sme=off,sve=off:i8mm neoverse-n1:dotprod cortex-a72:neon
ARM_OTHERS = */ref:*/arm64_neon:*/arm64_dotprod:*/arm64_i8mm
ARM_RUN = qemu-aarch64 -cpu $${core%:*} -E CPUACCEL_TEST_ISA=$${core\#\#*:} -E CPUACCEL_TEST_EMULATED=1 \
  -L $(ARM_ROOT) build/aarch64-kernels/tests/cpp/cpuaccel_kernel_tests --gtest_brief=1
# The root directory that the emulated programs see. Its /proc/cpuinfo is empty, as in some containers.
ARM_ROOT = build/aarch64-kernels/root
aarch64-kernels:
	cmake -S . -B build/aarch64-kernels -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64.cmake \
	  -DCPUACCEL_KERNELS_ONLY=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2"
	cmake --build build/aarch64-kernels --parallel $(JOBS)
	NM=aarch64-linux-gnu-nm $(PYTHON) tests/cpp/check_isa_objects.py build/aarch64-kernels
	mkdir -p $(ARM_ROOT)/proc && : > $(ARM_ROOT)/proc/cpuinfo
	ln -sfn /usr/aarch64-linux-gnu/lib $(ARM_ROOT)/lib
	set -e; core=$(ARM_CORE); for part in 0 1; do \
	  GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$$part $(ARM_RUN) --gtest_filter="-$(ARM_OTHERS)" & runs="$$runs $$!"; done; \
	  for run in $$runs; do wait $$run; done; runs=; for core in $(ARM_CORES); do \
	  $(ARM_RUN) --gtest_filter="Isa.*:*arm64_$${core##*:}*-*ThreadsDoNot*" & runs="$$runs $$!"; done; \
	  for run in $$runs; do wait $$run; done

# Two threads, because what threads share is tested too.
aarch64: $(VENV)/.tools
	PATH="$(CURDIR)/$(BIN):$$PATH" CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python tools/aarch64 build
	set -e; for core in graviton3 graviton4 graviton2; do echo "== $$core"; \
	  OMP_NUM_THREADS=2 $(BIN)/python tools/aarch64 run --core $$core \
	    -m pytest -p no:cacheprovider tests/aarch64; done

# Reads the objects that aarch64-kernels builds. Needs llvm-19.
aarch64-mca:
	$(PYTHON) tools/arm_peak.py build/aarch64-kernels

# Reads the objects that `make test` builds on x86. Needs llvm-19.
x86-mca:
	$(PYTHON) tools/x86_peak.py build/wheel

kernels-sanitized: setup-test
	cmake -S . -B build/kernels-sanitized -DCPUACCEL_KERNELS_ONLY=ON -DCPUACCEL_BENCHMARKS=ON \
	  -DCPUACCEL_KERNELS=$(KERNELS) \
	  -DCPUACCEL_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1"
	cmake --build build/kernels-sanitized --parallel $(JOBS)

# The first run installs the other runtimes. BENCH_ARGS=--resume continues an interrupted run.
BENCH_ARGS ?=
bench: setup-demo $(VENV)/.installed $(VENV)/.peers
	$(BIN)/python -m benchmarks.models.comparison --plot build/comparison.png \
	  --markdown build/comparison.md $(BENCH_ARGS)

lint: $(VENV)/.tools
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pre-commit run --all-files

format: $(VENV)/.tools
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	git ls-files '*.cpp' '*.h' | xargs $(BIN)/clang-format -i

# The releases of torch that the wheel has shims for, one for each minor version (docs/release.md).
TORCHES ?= 2.13.0 2.14.1 2.15.0

# The wheel to publish, in build/dist: a shim for each of TORCHES.
wheel: $(VENV)/.tools
	$(BIN)/pip install --quiet --requirement requirements/release.txt
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python tools/build_wheel.py $(TORCHES)

# Tests the wheels in build/dist with every torch, in fresh environments of gigabytes in build/matrix:
# MATRIX_ARGS="--only torch2.14.1" selects rows.
matrix:
	$(PYTHON) tools/torch_matrix.py build/dist/*.whl $(MATRIX_ARGS)

# Compiles and links the shims of other releases than the one in .venv, and runs nothing:
# make shims SHIMS="2.16.0"
SHIMS ?= $(filter-out $(patsubst torch==%,%,$(TORCH)),$(TORCHES))
shims: $(VENV)/.tools
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python tools/build_shims.py $(SHIMS)

# The site, with the API reference from docstrings. griffe reads the sources, so nothing is built, and
# the tools have a venv of their own. The variable hides the theme's note on its own future.
DOCS_VENV := build/docs-venv
docs: $(DOCS_VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

$(DOCS_VENV)/.installed: requirements/docs.txt
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/docs.txt
	touch $@

clean:
	rm -rf $(VENV) build

$(VENV)/.tools:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet "$(TORCH)" numpy
	$(BIN)/pip install --quiet --requirement requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps torchvision==0.28.0 --requirement requirements/test_no_deps.txt
	touch $@

# The table leaves out runtimes that this CPU or system does not have.
$(VENV)/.peers: requirements/peers.txt | $(VENV)/.installed
	$(BIN)/pip install --quiet "$(TORCH)" --requirement requirements/peers.txt
	touch $@

$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/pip install --no-build-isolation --no-deps \
	  --force-reinstall -C build-dir=build/wheel .
	touch $@

# A thin layer: dev/setup installs, CMake and Ninja build, dev/* runs things. `make help` lists it all.

CMAKE ?= cmake
PREFIX ?= /usr/local
# Handed to dev/test.py, dev/demo.py and bench/run.py as they are, for example TEST_FLAGS='--filter store -v'.
TEST_FLAGS ?=
DEMO_FLAGS ?=
BENCH_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup build demo test bench check install clean

help:
	@echo 'make build             build/release/regroup (installs what is missing first, with apt)'
	@echo 'make demo              build, then watch a small job lose a worker and go on'
	@echo 'make test              build, then run every test that this machine can run'
	@echo 'make bench             build, then measure against peers: build/bench.json and a table'
	@echo 'make check             format, layers and clang-tidy (dev/check --fix reformats)'
	@echo 'make install PREFIX=   install under PREFIX (default /usr/local); DESTDIR is honoured'
	@echo 'make clean             remove build/ (but keep build/torch, which takes minutes to make)'
	@echo
	@echo 'TORCH=none skips the PyTorch tests; TORCH_PYTHON=/path/to/python uses a PyTorch you have.'
	@echo 'SETUP=none installs nothing.'

setup:
	@CMAKE='$(CMAKE)' dev/setup build

# Ninja runs CMake again by itself when a CMakeLists.txt changes, but it does not know the presets.
build/release/build.ninja: CMakePresets.json | setup
	@$(CMAKE) --preset release --log-level=WARNING

build: build/release/build.ninja | setup
	@$(CMAKE) --build build/release

# The demo builds by itself, because PyTorch can be installed meanwhile.
demo: build/release/build.ninja | setup
	@CMAKE='$(CMAKE)' dev/demo.py --build $(DEMO_FLAGS)

test: build
	@$(CMAKE) --build build/release --target tests
	@dev/test.py --preset release $(TEST_FLAGS)

bench: build
	@$(CMAKE) --build build/release --target bench_programs
	@dev/setup bench
	@bench/run.py $(BENCH_FLAGS)

check: setup
	@dev/setup check
	@dev/check

# A DESTDIR from the command line or the environment reaches CMake through the environment.
install: build
	@$(CMAKE) --install build/release --prefix '$(abspath $(PREFIX))'

clean:
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name 'torch*' -exec rm -rf {} +; fi

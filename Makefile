# What a newcomer types. Each target sets up what it needs; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help train test test-long test-sanitize build data bench format clean distclean bootstrap
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

# A LibTorch file takes up to 2 GiB to compile: one job per core, but no more than memory carries.
jobs := $(shell awk -v cores="$$(nproc)" '/^MemTotal/ {n = int($$2 / 2097152); if (n < 1) n = 1; print n < cores ? n : cores}' /proc/meminfo)

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

train: build data  ## set up, build, and train a small GPT on Shakespeare with two ranks (about 4 minutes after the build)
	build/tutti train examples/shakespeare.toml -n 2 --force
	@echo
	build/tutti sample runs/shakespeare --prompt 'ROMEO:' --tokens 400 --temperature 0.8 --seed 1
	@echo
	@echo "Everything about this run is in runs/shakespeare: metrics.jsonl (a line per step), summary.json, trace.json, checkpoints/, log/."

test: build data  ## build and run all tests but the long and the sanitized ones (at most 10 minutes)
	scripts/run_tests.sh build -LE '^(long|sanitized)$$'

test-long: build data  ## only the long tests
	scripts/run_tests.sh build -L '^long$$'

test-sanitize: bootstrap  ## the torch-free half under AddressSanitizer + UBSan, then under ThreadSanitizer
	cmake --preset asan >/dev/null && ninja -C build-asan -j $(jobs)
	scripts/run_tests.sh build-asan -LE '^long$$'
	cmake --preset tsan >/dev/null && ninja -C build-tsan -j $(jobs)
	scripts/run_tests.sh build-tsan -LE '^long$$'

build: bootstrap  ## set up and build everything: the program is build/tutti
	cmake --preset release >/dev/null && ninja -C build -j $(jobs)

data: data/shakespeare.tokens data/tiny.tokens  ## make the token files of examples/

# One document per work, in bytewise order of the names: everybody's window k holds the same bytes.
data/shakespeare.tokens: .deps/shakespeare/.complete | build
	mkdir -p data
	LC_ALL=C; build/tutti data prepare .deps/shakespeare/*.txt --tokenizer bytes -o $@

data/tiny.tokens: LICENSE | build
	mkdir -p data
	build/tutti data prepare LICENSE --tokenizer bytes -o $@

.deps/shakespeare/.complete: | bootstrap ;

bench: build data  ## run the benchmarks beside their peers (about an hour; see bench/README.md)
	scripts/bootstrap.sh --bench
	.deps/venv/bin/python bench/all.py

format:  ## clang-format on every source file
	@command -v clang-format >/dev/null || { echo "make format needs clang-format: apt-get install clang-format"; exit 1; }
	git ls-files -z 'src/*.h' 'src/*.cpp' 'tests/*.h' 'tests/*.cpp' 'bench/*.cpp' 'examples/*.cpp' | xargs -0r clang-format -i

clean:  ## remove builds and token files; keep .deps and runs
	rm -rf build build-asan build-tsan
	rm -f data/shakespeare.tokens data/tiny.tokens

distclean: clean  ## remove also .deps (the next make sets up again) and runs
	rm -rf .deps runs

bootstrap:
	@scripts/bootstrap.sh

# Rules that the programs' Makefiles share: PROGRAM in, build/PROGRAM out, and a link to it: make && ./PROGRAM.
# SPDX-License-Identifier: Apache-2.0
#
#   make                 for an H100 or H200 (ARCH=90a)
#   make ARCH=80         for another GPU: its compute capability without the dot (nvidia-smi --query-gpu=compute_cap)
#   make run             build and run; FLAGS="--variant …" are passed on
#   make resources       registers, shared memory and spills of each kernel

NVCC ?= nvcc
ARCH ?= 90a
FLAGS ?=
BUILD ?= build
COMMON := $(dir $(lastword $(MAKEFILE_LIST)))
NVCCFLAGS ?= -O3 -std=c++17 -lineinfo -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow
HERE := $(if $(filter build,$(BUILD)),$(PROGRAM))
NVCCFLAGS += -gencode=arch=compute_$(ARCH),code=sm_$(ARCH)
HEADERS := $(wildcard $(COMMON)*.cuh $(COMMON)*.hpp *.cuh)

.PHONY: all run resources clean
all: $(BUILD)/$(PROGRAM) $(HERE)

$(BUILD)/$(PROGRAM): $(PROGRAM).cu $(HEADERS) $(MAKEFILE_LIST)
	@mkdir -p $(BUILD)
	$(NVCC) $(NVCCFLAGS) $< -o $@

$(PROGRAM): $(BUILD)/$(PROGRAM)
	ln -sf $< $@

run: all
	$(BUILD)/$(PROGRAM) $(FLAGS)

resources:
	$(NVCC) $(NVCCFLAGS) -Xptxas -v -cubin -o /dev/null $(PROGRAM).cu

clean:
	rm -f $(BUILD)/$(PROGRAM) $(HERE)

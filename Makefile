# Start with `make run` and `make test`. `make help` lists all targets.
PYTHON  ?= python3
SUDO    := $(if $(filter 0,$(shell id -u)),,sudo)
VENV    := .venv
BIN     := $(VENV)/bin
RELEASE := build/release-venv
PYTEST  := $(BIN)/python -m pytest
PIP     := $(BIN)/python -m pip install -q --disable-pip-version-check --root-user-action=ignore --retries 10 --timeout 60
CPUS    := $(shell nproc)
# Unit tests spend some of their time waiting.
WORKERS := $(shell echo $$(($(CPUS) + 1)))

# Packages of the distribution for the build, and for the tests: "command-or-file:package".
BUILD_NEEDS := clang:clang llvm-strip:llvm cc:gcc /usr/include/bpf/bpf_helpers.h:libbpf-dev \
               /usr/include/linux/bpf.h:linux-libc-dev /usr/include/stdlib.h:libc6-dev
TEST_NEEDS  := prometheus:prometheus rsync:rsync prometheus-alertmanager:prometheus-alertmanager \
               /usr/sbin/apparmor_parser:apparmor /usr/sbin/tc:iproute2 /usr/sbin/losetup:mount \
               /usr/lib/python3/dist-packages/bcc:python3-bpfcc zsh:zsh fish:fish mandoc:mandoc groff:groff-base \
               node:nodejs g++:g++
# Large, and of use to one test, which is marked acceptance.
MORE_TEST_NEEDS := clang-19:clang-19
# The stand-in GPU for the other architecture is cross-compiled.
CROSS_NEEDS := $(if $(filter aarch64,$(shell uname -m)),\
	x86_64-linux-gnu-gcc:gcc-x86-64-linux-gnu /usr/x86_64-linux-gnu/include/stdlib.h:libc6-dev-amd64-cross,\
	aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdlib.h:libc6-dev-arm64-cross)
IMAGE_NEEDS := podman:podman newuidmap:uidmap
KERNEL_NEEDS := qemu-system-x86_64:qemu-system-x86 /usr/sbin/mke2fs:e2fsprogs
# Jobs of other shapes run real PyTorch, under Debian's interpreter: the environment above has none.
FAULT_NEEDS := /usr/lib/python3/dist-packages/torch/__init__.py:python3-torch \
               /usr/lib/python3/dist-packages/numpy/__init__.py:python3-numpy g++:g++ \
               stress-ng:stress-ng fio:fio cpulimit:cpulimit rsync:rsync xz:xz-utils make:make cc:gcc strace:strace \
               zstd:zstd git:git openssl:openssl

run: build ## Build and start the exporter on http://127.0.0.1:10478/metrics, with a stand-in job if no GPU job runs
	$(SUDO) $(BIN)/gpu-stall-exporter-standin with-job $(BIN)/gpu-stall-exporter run $(FLAGS)

# FLAGS=hang: another fault; `gpu-stall-exporter demo --help` lists them.
demo: build ## Build, slow down a stand-in job by a real fault, and say why it waits
	$(SUDO) $(BIN)/gpu-stall-exporter demo $(or $(FLAGS),cpu-contention)

# The gate: red only if the code is wrong. All stages run, so that one run shows all failures.
test: $(VENV)/dev build test-packages trace-processor ## Run the tests that a change must pass, in twelve minutes on two CPUs; needs root
	@$(BIN)/python -m tests.stages $(TEST_STAGES)

# FLAGS=--all: hours, with releases, other kernels and soak. FLAGS=rig: only that row.
acceptance: $(VENV)/dev build test-packages interpreters trace-processor ## Measure and test what make test leaves out, in an hour: one table, build/acceptance.json
	@./deploy/packages.sh $(MORE_TEST_NEEDS)
	$(SUDO) env XDG_CACHE_HOME="$${XDG_CACHE_HOME:-$$HOME/.cache}" $(BIN)/python -m tests.acceptance $(FLAGS)

TEST_STAGES := check-static test-without-kernel test-side-by-side
IN_GATE     := not (acceptance or whole_machine or idle_machine or hardware_speed or soak or nvidia)
.PHONY: $(TEST_STAGES)

test-without-kernel:
	$(SUDO) $(PYTEST) -q -n $(WORKERS) tests/unit tests/contract -m "$(IN_GATE)"

test-side-by-side:
	$(SUDO) $(BIN)/python -m tests.side_by_side -q tests/kernel tests/end_to_end -m "$(IN_GATE)"

build: packages $(VENV)/run ## Build the BPF objects, the stand-in GPU and the virtual environment
	$(MAKE) -s -j$(CPUS) -C bpf
	$(MAKE) -s -C tests/standin

check: $(VENV)/dev build check-static ## Lint, check types, build BPF with -Werror, run unit and contract tests; no root
	$(PYTEST) -q -n $(WORKERS) tests/unit tests/contract -m "$(IN_GATE)"

check-static: $(VENV)/dev
	@$(MAKE) -s -j$(CPUS) check-style check-types check-programs

check-style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types:
	$(BIN)/mypy

check-programs:
	$(MAKE) -s -C bpf
	$(MAKE) -s -C bpf ARCH=arm64 OUT=../build/arm64

test-nvidia: $(VENV)/dev build test-packages ## Test the probes on NVIDIA's own libraries, downloaded from the package index (350 MB)
	$(SUDO) $(PYTEST) tests -m nvidia

# KERNEL=6.1: only that kernel. PYTEST_FLAGS: arguments of the guest's pytest; files replace the default ones.
test-kernels: $(VENV)/dev build ## Run kernel tests in the other supported kernels, emulated; KERNEL=6.1 for one; no root
	@./deploy/packages.sh $(KERNEL_NEEDS)
	$(BIN)/python -m tests.kernels $(if $(KERNEL),--kernel $(KERNEL)) $(PYTEST_FLAGS)

soak: $(VENV)/dev build ## Run the tests that take minutes: half an hour of churn, and the exporter killed 200 times
	$(SUDO) $(PYTEST) -q tests -m soak --timeout=3600

# Built as this user, run as root: sudo has another home, so the cache is passed on. Exit code 3: Go is missing.
conformance: $(VENV)/dev build ## Check scrapes and pushes with an OpenTelemetry Collector and Prometheus 3; needs Go
	@cache="$${XDG_CACHE_HOME:-$$HOME/.cache}"; $(BIN)/python -m tests.conformance.build; status=$$?; \
	if [ $$status = 3 ]; then exit 0; elif [ $$status != 0 ]; then exit $$status; fi; \
	$(SUDO) env XDG_CACHE_HOME="$$cache" $(PYTEST) -q tests/conformance

# FLAGS=--long: 360 episodes, in two hours or more. FLAGS="--replay DIR": replay what --long --out DIR recorded.
# FLAGS="--trials 40 --seed 7": only trials of other jobs, which the seed chooses.
faults: $(VENV)/dev build ## Inject real faults and compare the chains, in 14 minutes; hundreds with FLAGS=--long or "--trials N"
	@./deploy/packages.sh $(FAULT_NEEDS)
	$(SUDO) $(BIN)/python -m tests.faults.campaign $(or $(FLAGS),--short)

# FLAGS=fio: only that one. FLAGS=--write: writes docs/investigations.md.
investigations: $(VENV)/dev build ## Have a client of MCP find the causes of ten real faults, in 12 minutes; nothing else may use CUDA
	@./deploy/packages.sh $(FAULT_NEEDS)
	$(SUDO) $(BIN)/python -m tests.faults.investigations $(FLAGS)

image-steps: build cross-packages $(RELEASE)/ready ## Make a release with its container image twice, compare, and try the image as a pod runs it
	@./deploy/packages.sh $(IMAGE_NEEDS) runc:runc mmdebstrap:mmdebstrap
	$(SUDO) $(BIN)/python -m tests.image $(FLAGS)

bench: $(VENV)/dev build ## Measure the figures of docs/measurements.md on this machine
	$(SUDO) $(BIN)/python -m tests.bench $(FLAGS)

# OUT=folder: output, must be empty. BASE=debian@sha256:…: base of the container image. IMAGE=no: no image.
release: packages cross-packages $(RELEASE)/ready ## Make wheels, source archive, chart, container image, bill of materials and checksums in dist/
	$(RELEASE)/bin/python -m deploy.release $(or $(OUT),dist) $(if $(filter no,$(IMAGE)),--without-image,\
	  --before-image='./deploy/packages.sh $(IMAGE_NEEDS)' $(if $(BASE),--base=$(BASE)))

$(RELEASE)/ready: deploy/release/requirements.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install -q --disable-pip-version-check --root-user-action=ignore -r $<
	@touch $@

pictures: $(VENV)/dev build test-packages ## Draw the pictures of the dashboards for the documentation, from jobs with faults
	$(SUDO) $(BIN)/python -m tests.pictures

golden: $(VENV)/dev ## Rewrite the golden files and the generated parts of the documentation
	GOLDEN_REWRITE=1 $(PYTEST) -q tests/unit/output/test_golden.py tests/contract/test_generated.py

format: $(VENV)/dev ## Format, and fix what the linter can fix
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format -q .

packages:
	@./deploy/packages.sh $(BUILD_NEEDS)

test-packages: cross-packages
	@./deploy/packages.sh $(TEST_NEEDS)

# A static build of Python 3.14, 36 MB, whose frames are read in tests; these are skipped without it.
interpreters: $(VENV)/dev
	@$(BIN)/python -m tests.support.interpreters

# Perfetto's trace processor, 16 MB, which reads exported timelines in tests; these are skipped without it.
trace-processor: $(VENV)/dev
	@$(BIN)/python -m tests.support.trace_processor

cross-packages:
	@./deploy/packages.sh $(CROSS_NEEDS)

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || ./deploy/packages.sh /nonexistent:python3-venv
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run: $(VENV)/python pyproject.toml tests/standin/pyproject.toml
	$(PIP) -e . -e tests/standin
	@touch $@

# Installs what `run` needs as well, so it comes before `build` in the targets above.
$(VENV)/dev: $(VENV)/python pyproject.toml tests/standin/pyproject.toml
	$(PIP) -e '.[dev]' -e tests/standin
	@touch $(VENV)/run $@

clean: ## Remove all build results
	$(MAKE) -s -C bpf clean
	$(MAKE) -s -C tests/standin clean
	rm -rf $(VENV) build dist *.egg-info tests/standin/*.egg-info tests/standin/build .pytest_cache .mypy_cache .ruff_cache .hypothesis

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

.PHONY: run demo test acceptance build check check-static check-style check-types check-programs soak test-nvidia test-kernels conformance investigations image-steps bench release pictures golden format packages test-packages interpreters trace-processor cross-packages clean help

# The tasks of this repository. `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo recording picture test test-fast test-release test-engines flaky image-test windows-test fuzz simulate bench bench-quick bench-scale bench-serve bench-shared bench-docs soak reproducible check setup-build setup-test setup-image setup-windows

# The target is always set: without it the static flags would apply to build scripts and macros.
TARGET ?= $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
BINARY := $(CURDIR)/target/$(TARGET)/release/butler-runner

# The version of Terraform for the tests if none is installed.
TERRAFORM_VERSION ?= 1.11.4
TOOLS := $(CURDIR)/target/tools

# The target for Windows. Types have other sizes there, so one lint is disabled.
WINDOWS := x86_64-pc-windows-gnu

# The flags of Cargo for a release.
release = .ci/release-environment '$(TARGET)' \
	cargo $(1) --release --locked --target '$(TARGET)' --target-dir '$(CURDIR)/target'

# nextest, and Terraform on PATH: the installed one, or one that the runner of this build installs.
define with_test_tools
	@nextest="$$(.ci/cargo-tool cargo-nextest)"; \
	export PATH="$$nextest:$$PATH" BUTLER_TEST_STATIC_BINARY='$(BINARY)'; \
	cargo nextest run --locked --workspace --no-run; \
	terraform="$$(command -v terraform || \
		'$(CURDIR)/target/debug/butler-runner' tool install --cache-dir '$(TOOLS)' '$(TERRAFORM_VERSION)')"; \
	export PATH="$$PATH:$$(dirname "$$terraform")"; \
	$(1)
endef

# The tests of a profile of .config/nextest.toml. Three for each core, because most of them wait.
NEXTEST := cargo nextest run --locked --workspace --test-threads "$$(($$(getconf _NPROCESSORS_ONLN) * 3))"

# For simulations of thousands of seeds. A hundred take less time than its compilation.
OPTIMISED := --config profile.dev.package.butler-server.opt-level=2

# Server and attempts are killed at random.
SOAK := SOAK_KILLS="$${SOAK_KILLS:-50}" SOAK_SECONDS="$${SOAK_SECONDS:-600}" SOAK_SEED="$${SOAK_SEED:-$$(date +%s)}" \
	cargo test --locked --test server -- --nocapture --test-threads=1 --exact \
		server::kills::killed_servers_and_attempts_lose_no_commit_and_apply_none_twice \
		server::kills::killed_servers_with_one_store_lose_no_commit_and_apply_none_twice

# Beside scripts that users would write instead: benches/ is a Python package without dependencies.
define benchmark
	@terraform="$$(command -v terraform || '$(BINARY)' tool install --cache-dir '$(TOOLS)' '$(TERRAFORM_VERSION)')"; \
	PATH="$$PATH:$$(dirname "$$terraform")" $(2) python3 -B -m benches $(1) '$(BINARY)'
endef

help: ## List the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

build: setup-build ## Build the static binary: target/<triple>/release/butler-runner
	@$(call release,build)
	@echo 'built $(BINARY)'

demo: build ## Build, then show plan, apply and destroy with a registry of its own
	@'$(BINARY)' demo

recording: build ## Build, then record a run at a terminal: docs/recording/apply.cast and .svg
	@terraform="$$(command -v terraform || '$(BINARY)' tool install --cache-dir '$(TOOLS)' '$(TERRAFORM_VERSION)')"; \
	PATH="$$PATH:$$(dirname "$$terraform")" docs/recording/record.py '$(BINARY)'

picture: build ## Build, then make the pictures of the documentation with Chromium: docs/report.png and docs/tour
	@terraform="$$(command -v terraform || '$(BINARY)' tool install --cache-dir '$(TOOLS)' '$(TERRAFORM_VERSION)')"; \
	export PATH="$$PATH:$$(dirname "$$terraform")"; \
	docs/report-picture '$(BINARY)' && \
	BUTLER_TEST_WRITE_DOCS=1 cargo test --locked --test server server::tour

test: setup-test ## All tests except those of the static binary
	$(call with_test_tools,$(NEXTEST) --no-fail-fast)

test-fast: ## Unit tests and the quick integration tests (the profile `fast` of .config/nextest.toml)
	$(call with_test_tools,$(NEXTEST) --profile fast)

test-release: setup-test build ## Build, then test the static binary: its size, its costs, and that it needs no other file
	$(call with_test_tools,$(NEXTEST) --profile release)

test-engines: setup-test ## Test the engines that BUTLER_TEST_ENGINES names (paths, as in PATH), else those on PATH
	$(call with_test_tools,$(NEXTEST) -E 'binary(runner) & test(/^engines::/)')

flaky: setup-test ## Run tests FLAKY_ROUNDS times on a busy machine, and list those that failed (FLAKY_FILTER selects)
	$(call with_test_tools,.ci/flaky $(NEXTEST))

image-test: setup-image build ## As root: execute every line of the Dockerfile, then runs in the result
	@terraform="$$(command -v terraform || '$(BINARY)' tool install --cache-dir '$(TOOLS)' '$(TERRAFORM_VERSION)')"; \
	PATH="$$PATH:$$(dirname "$$terraform")" cargo test --locked --test image -- --nocapture

windows-test: setup-windows ## Build for Windows, check that with clippy, and run it with Wine
	@cargo clippy --locked --workspace --target '$(WINDOWS)' --lib --bins --test windows -- -D warnings \
		-A clippy::trivially-copy-pass-by-ref
	@CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER='$(CURDIR)/tests/windows/wine' \
		cargo test --locked --target '$(WINDOWS)' --test windows

fuzz: setup-test ## Feed every parser with broken input for FUZZ_SECONDS each, from a new seed
	@FUZZ_SECONDS="$${FUZZ_SECONDS:-60}" FUZZ_SEED="$${FUZZ_SEED:-$$(date +%s)}" \
		cargo test --locked --workspace --lib fuzz_ -- --nocapture

simulate: setup-test ## Simulate the server with faults, from a new seed on, until an invariant breaks or SIMULATE_SEEDS have run
	@SIMULATE_SEED="$${SIMULATE_SEED:-$$(date +%s)000}" \
		cargo test $(OPTIMISED) --locked --package butler-server --test simulation -- --nocapture

bench: build ## Build, then measure all of docs/performance.md, with growth: half an hour
	$(call benchmark)
	$(call benchmark,--growth)

bench-quick: build ## The same with few pairs and without growth: under three minutes
	$(call benchmark,--quick)

bench-scale: build ## Build, then start 200 runs at once, with one registry and one cache
	$(call benchmark,--scale)

bench-serve: build ## Build, then measure the server with up to 10,000 layers: a quarter of an hour
	$(call benchmark,--serve,.ci/release-environment '$(TARGET)' env CARGO_BUILD_TARGET='$(TARGET)')

bench-shared: build ## Build, then measure servers that share a store in PostgreSQL: twenty minutes
	$(call benchmark,--shared)

soak: setup-test ## Simulate 2,000 seeds, then kill servers and attempts at random: one, and two with one store, ten minutes each
	@SIMULATE_SEEDS="$${SIMULATE_SEEDS:-2000}" \
		cargo test $(OPTIMISED) --locked --package butler-server --package butler-follower --test simulation
	$(call with_test_tools,$(SOAK))

bench-docs: ## Put what was last measured into docs/performance.md, and draw docs/performance.svg
	@python3 -B -m benches --docs

reproducible: setup-build ## Build this commit in two directories, and compare: half an hour
	@.ci/reproducible '$(TARGET)'

check: ## Everything that CI does
	@.ci/run

setup-build:
	@.ci/setup build

setup-test:
	@.ci/setup test

setup-windows:
	@.ci/setup windows

setup-image:
	@.ci/setup image

# Namewire. `make` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
PROFILE ?= release
BIN := target/$(PROFILE)/namewire
BENCH := target/$(PROFILE)/namewire-bench
# Made by `make c-library`; where it exists, the C library is installed and packaged, too.
C_LIBRARY := target/$(PROFILE)/libnamewire.a
# Made by `make python`.
WHEEL = $(shell ls -t target/wheels/namewire-*.whl 2>/dev/null | head -n 1)
# Releases have a profile of their own, and are linked with the glibc of Debian 11 and Ubuntu 20.04 instead of that of this machine.
# libgcc_s of this machine may need newer symbols, hence --allow-shlib-undefined.
RELEASE_PROFILE := distribution
RELEASE_GLIBC := 2.31
RELEASE_MIB := 32
GLIBC := $(CURDIR)/target/glibc-$(RELEASE_GLIBC)
RELEASE_LINK := -B$(GLIBC) -L$(GLIBC) -Wl,--allow-shlib-undefined
RELEASE = RUSTFLAGS="$(RELEASE_LINK:%=-Clink-arg=%) --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}/registry/src/= \
	--remap-path-prefix=$(CURDIR)/=" \
	LDFLAGS="$(RELEASE_LINK)" $(MAKE) PROFILE=$(RELEASE_PROFILE)
# All packages each time: cargo compiles libraries anew when other packages are selected, because of their features.
TESTS = $(CARGO) test --workspace --no-fail-fast
# These wait for sockets and processes most of the time: a test needs about a quarter of a processor. More than eight at a
# time would not be faster, and nproc does not know the limits of containers.
END_TO_END = NAMEWIRE_BIN="$(CURDIR)/target/debug/namewire" NAMEWIRE_SKIPPED="$(CURDIR)/target/skipped-tests" \
	RUST_TEST_THREADS="$$(( $$(nproc) < 4 ? 2 * $$(nproc) : 8 ))" $(TESTS)
# The cargo feature of VIP in the packages whose code it changes, and the targets with its tests.
# WITHOUT_VIP: packages without a test that the feature changes. A package stays in, even without one, if leaving it out would
# compile shared crates with other features. ndn-sim turns on planted-faults; without it, that feature is named here so that
# nothing is compiled again.
VIP := ndn-caching/vip,ndn-cache-sim/vip,ndn-forwarding/vip,namewire-daemon/vip,ndn-lab/vip,namewire-daemon/planted-faults
VIP_TARGETS := --test vip --test engine
VIP_TESTS = $(TESTS) $(WITHOUT_VIP:%=--exclude %) --features $(VIP)
WITHOUT_VIP := namewire namewire-bench namewire-c namewire-config namewire-control namewire-fuzz namewire-http namewire-python \
	namewire-tests ndn-dataplane ndn-face ndn-pipeline-bench ndn-sim ndn-table
# The one toolchain beside that of rust-toolchain.toml; Miri needs it.
NIGHTLY := nightly-2026-05-20
# The system, and the crates for applications that are for other systems than Linux, too.
MACOS := aarch64-apple-darwin
PORTABLE := ndn-packet ndn-types ndn-sha256 ndn-security ndn-keychain ndn-management ndn-client ndn-files
FUZZ_SECONDS ?= 60
FUZZ_GOAL ?= 100000000
SOAK_SECONDS ?= 600
SOAK_SEQUENCES ?= 2000000
SIM_SCENARIOS ?= 100000
SIM_FIRST ?= 0
SIM_ATTACKS ?= 10000
ATTACK_SECONDS ?= 600

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@command -v $(CARGO) >/dev/null || scripts/require-cargo

.PHONY: build
build: cargo ## Build the namewire program (target/release/namewire)
	$(CARGO) build --profile $(PROFILE) -p namewire

.PHONY: build-bench
build-bench: build ## Build namewire-bench, which measures the program (target/release/namewire-bench)
	$(CARGO) build --profile $(PROFILE) -p namewire-bench --bins

.PHONY: install
install: ## Install what is built: the program, completions, man pages, namewire-bench (PREFIX=/usr/local)
	@test -x "$(BIN)" || { echo "there is nothing to install yet: run make build first"; exit 1; }
	scripts/install "$(or $(PREFIX),/usr/local)" "$(BIN)" $(wildcard $(C_LIBRARY))

.PHONY: deb
deb: glibc ## Make Debian packages (target/debian); after make c-library python, theirs, too
	+$(RELEASE) build $(if $(wildcard $(C_LIBRARY) target/$(RELEASE_PROFILE)/libnamewire.a),c-library) $(if $(WHEEL),python)
	+$(RELEASE) check-release packages-deb

.PHONY: dist
dist: semver glibc ## Make a release: archive, wheel, Debian packages, apt repository, all in target/dist (RELEASE_KEY=OpenPGP key)
	+$(RELEASE) build c-library python
	+$(RELEASE) check-release packages-dist

# The following are made by deb and dist, with their profile and flags.
.PHONY: check-release packages-deb packages-dist
check-release:
	scripts/check-release $(RELEASE_GLIBC) $(RELEASE_MIB) "$(BIN)" $(wildcard $(dir $(BIN))c/libnamewire.so) $(WHEEL)
packages-deb:
	scripts/package-deb "$(BIN)" target/debian "$(wildcard $(C_LIBRARY))" "$(WHEEL)"
packages-dist:
	SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" \
		scripts/package-release "$(BIN)" target/dist "$(RELEASE_KEY)" "$(C_LIBRARY)" "$(WHEEL)"

.PHONY: glibc
glibc: $(GLIBC)
$(GLIBC): scripts/link-libc
	test -x target/zig/bin/python || python3 -m venv target/zig
	target/zig/bin/pip install --quiet ziglang==0.17.1
	scripts/link-libc target/zig/bin/python $(RELEASE_GLIBC) "$@"

# The crates for applications, with those that they need.
LIBRARIES := ndn-packet ndn-types ndn-sha256 ndn-ring ndn-sys ndn-security ndn-keychain ndn-memif ndn-management \
	ndn-webtransport ndn-client ndn-files ndn-origins ndn-access ndn-gateway \
	ndn-mount

.PHONY: package
package: cargo ## Package the library crates for a registry, and build them from the packages
	$(CARGO) package $(LIBRARIES:%=--package %)

.PHONY: python
python: cargo ## Build the Python package: wheel and source distribution (target/wheels)
	test -x target/python/bin/maturin || { python3 -m venv target/python && target/python/bin/pip install --quiet 'maturin>=1.16,<2'; }
	target/python/bin/maturin build --profile $(PROFILE) --manifest-path bindings/python/Cargo.toml --out target/wheels
	target/python/bin/maturin sdist --manifest-path bindings/python/Cargo.toml --out target/wheels

.PHONY: python-check
python-check: python ## Install the wheel, and one that is built from the source distribution, and fetch a file by each
	scripts/check-wheel target/wheels
	rm -rf target/wheels-of-source
	PATH="$(CURDIR)/target/python/bin:$$PATH" CARGO_TARGET_DIR="$(CURDIR)/target/python/cargo" target/python/bin/pip wheel \
		--quiet --no-deps --no-build-isolation --wheel-dir target/wheels-of-source "$$(ls -t target/wheels/namewire-*.tar.gz | head -n 1)"
	scripts/check-wheel target/wheels-of-source

.PHONY: c-library
c-library: cargo ## Build the C library (target/release/c; make -C bindings/c install PREFIX=/usr/local)
	$(CARGO) build --profile $(PROFILE) -p namewire-c
	$(MAKE) -C bindings/c LIBRARY="$(CURDIR)/$(C_LIBRARY)" OUT="$(CURDIR)/$(dir $(C_LIBRARY))c"

.PHONY: xrootd
xrootd: cargo ## Build the plug-in for XRootD's server (target/release/libXrdNamewire.so; needs libxrootd-server-dev)
	$(CARGO) build --release -p namewire-c
	$(MAKE) -C bindings/xrootd

.PHONY: image
image: ## Build a container image (needs docker; IMAGE=namewire)
	docker build --tag "$(or $(IMAGE),namewire)" .

.PHONY: demo
demo: build ## Publish and fetch a directory through a forwarder, and show what happened
	scripts/demo "$(BIN)"

.PHONY: bench
bench: build-bench ## Measure the pipeline and the relay (minutes; docs/internals/benchmarks.md explains the output)
	"$(BENCH)" pipeline
	"$(BENCH)" relay

.PHONY: performance
performance: build-bench ## Measure everything and write the tables of docs/performance.md and README.md (15 minutes, quiet machine)
	scripts/performance target/performance

.PHONY: instructions
instructions: cargo setup ## Count instructions per exchange; fails if they differ from scripts/instructions.txt
	$(CARGO) build --release -p ndn-pipeline-bench --example in_turn
	scripts/count-instructions

##@ Check

.PHONY: test
test: cargo setup ## Run all tests, with real applications of other projects
	$(CARGO) build --workspace --all-targets
	: > target/skipped-tests; \
	( failed=0; \
	$(TESTS) --exclude namewire-tests || failed=1; \
	$(END_TO_END) --test forwarding --test program || failed=1; \
	NAMEWIRE_TEST_WORKERS=2 $(END_TO_END) --test forwarding || failed=1; \
	scripts/report-skipped target/skipped-tests tests/optional-programs || failed=1; \
	$(VIP_TESTS) --lib --test shard vip || failed=1; \
	$(VIP_TESTS) $(VIP_TARGETS) || failed=1; \
	exit $$failed ) 2>&1 | tee target/tests.log; \
	failed=$${PIPESTATUS[0]}; \
	grep -E '^test .* FAILED$$|^tests were skipped|^error' target/tests.log; \
	exit $$failed

.PHONY: lint
lint: cargo ## Formatting, clippy, rustdoc, prose; warnings are errors
	scripts/check-prose
	@if grep -rn 'feature = "vip"' $(wildcard $(foreach package,$(WITHOUT_VIP),crates/$(package)/tests) tests/tests); then \
		echo "these tests need VIP: take their package out of WITHOUT_VIP (Makefile)" >&2; exit 1; fi
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/interop/ndn-app/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --workspace --features $(VIP),namewire/vip --lib --bins $(VIP_TARGETS) --test shard -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	RUSTFLAGS="--cfg loom -D warnings -A dead_code" $(CARGO) check -p ndn-ring --lib --tests --target-dir target/loom

.PHONY: fuzz
fuzz: cargo ## Fuzz every target for FUZZ_SECONDS (default 60) each, FUZZ_RUNS times at most; print executions and seeds
	scripts/fuzz "$(FUZZ_SECONDS)"

.PHONY: fuzz-goal
fuzz-goal: cargo ## Fuzz each target that reads packets until it has FUZZ_GOAL executions (default 10^8); an interrupted run continues
	FUZZ_GOAL="$(FUZZ_GOAL)" FUZZ_TARGETS=network scripts/fuzz "$(FUZZ_SECONDS)"

.PHONY: fuzz-replay
fuzz-replay: cargo ## Replay the committed fuzz corpus (part of make test)
	$(CARGO) test -p namewire-fuzz

.PHONY: loom
loom: cargo ## Try every interleaving of the lock-free types
	RUSTFLAGS="--cfg loom" $(CARGO) test -p ndn-ring --release --lib --target-dir target/loom loom

.PHONY: miri
miri: cargo ## Look for undefined behaviour where unsafe is allowed, and in the rings of workers and kernel
	@rustup component list --toolchain $(NIGHTLY) 2>/dev/null | grep -q 'miri.*(installed)' \
		|| rustup toolchain install $(NIGHTLY) --profile minimal -c miri -c rust-src
	RUSTFLAGS="-C target-feature=+aes,+ssse3" \
		$(CARGO) +$(NIGHTLY) miri test -p ndn-ring --target-dir target/miri
	$(CARGO) +$(NIGHTLY) miri test -p ndn-sys --lib --target-dir target/miri -- ring:: rings::
	MIRIFLAGS=-Zmiri-disable-isolation \
		$(CARGO) +$(NIGHTLY) miri test -p ndn-dataplane --lib --target-dir target/miri exchange

.PHONY: macos
macos: cargo ## Check that the commands for clients and the crates for applications compile for macOS
	@rustup target list --installed | grep -qx $(MACOS) || rustup target add $(MACOS)
	CC_$(subst -,_,$(MACOS))="$(CURDIR)/scripts/no-c-compiler" SDKROOT=/ MACOSX_DEPLOYMENT_TARGET=11.0 AWS_LC_SYS_CMAKE_BUILDER=0 \
		$(CARGO) check --target $(MACOS) --target-dir target/macos --package namewire $(PORTABLE:%=--package %) \
		--lib --bins --examples
	@echo "the commands for clients and the crates for applications compile for $(MACOS)"

.PHONY: semver
semver: cargo ## Compare the interfaces of the library crates with those of the last release (SEMVER_BASE=commit: with that)
	scripts/check-semver "$(SEMVER_BASE)" $(LIBRARIES)

.PHONY: deny
deny: cargo ## Check licences and banned dependencies
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing: cargo install cargo-deny --locked"; exit 1; }
	$(CARGO) deny check bans licenses sources

.PHONY: dpdk
dpdk: cargo ## Test ports of DPDK with its virtual devices (skips without libdpdk; root adds net_tap, net_af_packet)
	scripts/test-dpdk

.PHONY: soak
soak: build ## Run two workers under mixed traffic while everything changes, for SOAK_SECONDS (default 600)
	NAMEWIRE_BIN="$(CURDIR)/$(BIN)" NAMEWIRE_MEASURES=1 SOAK_SECONDS="$(SOAK_SECONDS)" \
		$(CARGO) test -p namewire-tests --test program soak:: -- --nocapture

.PHONY: sim
sim: cargo ## Simulate SIM_SCENARIOS random networks of forwarders (default 100,000) from seed SIM_FIRST on (default 0); a failure prints how to replay it
	$(CARGO) run --release -p ndn-sim -- run --first "$(SIM_FIRST)" --count "$(SIM_SCENARIOS)" --jobs "$$(nproc)"

.PHONY: sim-attack
sim-attack: cargo ## Simulate SIM_ATTACKS random attacks of up to ten addresses or users (default 10,000); a failure prints how to replay it
	$(CARGO) run --release -p ndn-sim -- attack --count "$(SIM_ATTACKS)" --jobs "$$(nproc)"

.PHONY: attack
attack: $(if $(ATTACKED),cargo,build) ## Attack two workers from a hundred ports of ten addresses for ATTACK_SECONDS (default 600), of the program ATTACKED (default: a new build); print rates, memory, ledger
	NAMEWIRE_BIN="$(or $(ATTACKED),$(CURDIR)/$(BIN))" NAMEWIRE_MEASURES=1 ATTACK_SECONDS="$(ATTACK_SECONDS)" \
		$(CARGO) test -p namewire-tests --test program hub:: -- --ignored --nocapture

.PHONY: failover
failover: build ## Kill the better of two paths under fetches of 200 MiB, with every strategy; print the longest pauses (5 minutes, quiet machine)
	NAMEWIRE_BIN="$(CURDIR)/$(BIN)" NAMEWIRE_MEASURES=1 \
		$(CARGO) test -p namewire-tests --test forwarding gap_of_a_large_fetch -- --ignored --nocapture

.PHONY: large-files
large-files: build ## Fetch ranges of files of 100 GiB and 12 GB that are not hashed yet, the latter on a disk of 150 MB/s; print the times (root, quiet machine)
	NAMEWIRE_BIN="$(CURDIR)/$(BIN)" NAMEWIRE_MEASURES=1 \
		$(CARGO) test -p namewire-tests --test program ranges_of_huge_files -- --ignored --nocapture

.PHONY: soak-equivalence
soak-equivalence: cargo ## Compare shards with the model in SOAK_SEQUENCES random sequences (default 2,000,000)
	NAMEWIRE_CASES="$(SOAK_SEQUENCES)" CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
		$(CARGO) test -p ndn-forwarding --release --test shard --target-dir target/soak -- differential disorder

##@ Set up

.PHONY: setup
setup: cargo ## Install what the tests need (Python and npm packages; apt where something is missing)
	scripts/setup-tests

.PHONY: model-coverage
model-coverage: cargo ## Check the coverage of the model checker's intervals in 10,000 repetitions (minutes)
	$(CARGO) test -p ndn-model --test coverage -- --ignored

.PHONY: reference
reference: cargo ## Generate the pages of docs/reference from the program
	$(CARGO) build -p namewire
	target/debug/namewire config reference > docs/reference/configuration.md.new
	mv docs/reference/configuration.md.new docs/reference/configuration.md
	target/debug/namewire man --markdown > docs/reference/commands.md.new
	mv docs/reference/commands.md.new docs/reference/commands.md
	NAMEWIRE_WRITE_REFERENCE=1 $(CARGO) test -p namewire-daemon --test reference
	NAMEWIRE_WRITE_REFERENCE=1 $(CARGO) test -p namewire-tests --test program json_forms

.PHONY: docs
docs: cargo ## Build the documents as a book and check its links (target/book/docs; needs mdbook)
	@command -v mdbook >/dev/null || { echo "mdbook is missing: cargo install mdbook --locked"; exit 1; }
	mdbook build docs
	@for page in CHANGELOG CONTRIBUTING KNOWN_ISSUES bench/notebook/README; do \
		mkdir -p "target/book/$$(dirname "$$page")"; \
		{ echo '<!doctype html><meta charset="utf-8"><pre>'; sed 's/&/\&amp;/g; s/</\&lt;/g' "$$page.md"; } \
			> "target/book/$$page.html"; \
	done
	$(TESTS) --test program documents::
	@echo "the book is target/book/docs/index.html"

.PHONY: clean
clean: ## Remove everything that was built or installed here
	rm -rf target .venv tests/interop/*/node_modules

.PHONY: cargo
cargo:
	@command -v $(CARGO) >/dev/null || { scripts/require-cargo; exit 1; }

# Every task of the project. CI calls only these.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
VENV := .venv/bin
PYTHON_SOURCES := src tests scripts
# Without what make says of its own jobs, which cargo would try to share, and warn.
CARGO := cd dataplane && MAKEFLAGS= cargo

.PHONY: help
help: ## Show the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## A Ceph cluster, a MySQL on it, measured against this machine's own disk
	@scripts/demo.sh

# Where `grampus` is found by name; the checkout stays where it is.
PREFIX ?= /usr/local

.PHONY: install
install: ## Link grampus into PREFIX/bin (default /usr/local)
	@scripts/setup.sh runtime
	@mkdir -p "$(DESTDIR)$(PREFIX)/bin"
	@ln -sfn "$(CURDIR)/grampus" "$(DESTDIR)$(PREFIX)/bin/grampus"
	@echo "$(DESTDIR)$(PREFIX)/bin/grampus leads to this checkout."

.PHONY: uninstall
uninstall: ## Remove that link
	@if [ "$$(readlink "$(DESTDIR)$(PREFIX)/bin/grampus")" = "$(CURDIR)/grampus" ]; then \
		rm "$(DESTDIR)$(PREFIX)/bin/grampus"; fi

.PHONY: package
package: setup-check ## Build the Debian package in build/package
	@$(VENV)/python scripts/build_package.py

.PHONY: setup
setup: ## Make the checkout ready for development
	@scripts/setup.sh dev
	@scripts/ensure-rust.sh

# volumed takes half a minute to build, and only a lab needs it.
.PHONY: setup-check
setup-check:
	@scripts/setup.sh check
	@scripts/ensure-rust.sh

.PHONY: test
test: check labs ## Everything: lint, types, unit, integration, acceptance
	@echo "All tests passed."

# Side by side: what waits for a disk or for a process leaves the CPUs to the others.
.PHONY: check
check: setup-check ## Everything that needs no lab
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types unit rust docs

.PHONY: lint
lint: setup-check ## Style, imports, shell scripts, file lengths
	$(VENV)/ruff check $(PYTHON_SOURCES)
	$(VENV)/ruff format --check $(PYTHON_SOURCES)
	$(VENV)/lint-imports
	scripts/check-tree.sh

.PHONY: types
types: setup-check ## mypy, strict
	$(VENV)/mypy

.PHONY: unit
unit: setup-check ## Python unit tests
	@# In memory: thousands of small state files are written, and each waits for its disk.
	scratch=$$(mktemp --directory --tmpdir="$$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)"); \
	trap 'rm -rf "$$scratch"' EXIT; TMPDIR=$$scratch $(VENV)/pytest tests/unit \
		--numprocesses auto --dist worksteal

.PHONY: rust
rust: setup-check ## The dataplane: format, clippy, tests, licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --locked --workspace --quiet
	extra="$$(scripts/ensure-cargo-deny.sh)" && cd dataplane && PATH="$${extra:+$$extra:}$$PATH" \
		cargo deny --log-level error check bans licenses sources

.PHONY: races
races: setup-check ## The data plane's tests under ThreadSanitizer (ten minutes)
	scripts/check-races.sh

# One lane after the other would take twice as long: both mostly wait.
.PHONY: labs
labs: setup ## Integration and acceptance tests, side by side on labs of their own (root)
	$(VENV)/python -m tests.system.lanes

.PHONY: integration
integration: setup ## Integration tests alone, on a lab of their own (root)
	$(VENV)/pytest tests/integration

# GRAMPUS_TESTS_ON=site: the operations of a site, settled by another machine.
.PHONY: exhaustive
exhaustive: setup ## Databases stopped at each step, on each write path, on a real lab (root; hours)
	$(VENV)/pytest -m exhaustive tests/integration

.PHONY: soak
soak: setup ## The faults of a volume over and over, and an hour under load (root; two hours)
	GRAMPUS_TEST_REPEATS=5 GRAMPUS_TEST_SOAK_S=3600 $(VENV)/pytest --timeout 7200 \
		tests/integration/test_volumed_faults.py tests/integration/test_volumed_fence.py \
		tests/integration/test_volumed_journal.py \
		tests/integration/test_volumed_live.py

# Interrupted, it goes on with the next call; GRAMPUS_CRASHES=N, GRAMPUS_FENCES=N and
# GRAMPUS_DB_CRASHES=N say how many.
.PHONY: crashes
crashes: setup ## Real crashes of volumes and databases, into docs/proof (root; hours)
	$(VENV)/python -m tests.proof

.PHONY: bottlenecks
bottlenecks: setup ## Whether the layer that is made slow on purpose is named, into docs/proof (root; 30 minutes)
	$(VENV)/python -m tests.proof.bottlenecks

.PHONY: harness-cost
harness-cost: setup ## What watching takes of a benchmark's throughput, into docs/proof (root; 40 minutes)
	$(VENV)/python -m tests.proof.check_suites harness-cost

.PHONY: environments-alike
environments-alike: setup ## Two arms that are alike on environments of their own, into docs/proof (root; an hour)
	$(VENV)/python -m tests.proof.check_suites environments-alike

.PHONY: hard-disk
hard-disk: setup ## The emulated hard disk against its model, into docs/proof (root; a minute)
	$(VENV)/python -m tests.proof.hard_disk

.PHONY: controller-cost
controller-cost: setup ## What a controller takes of the throughput beside it, into docs/proof (root; an hour)
	$(VENV)/python -m tests.proof.check_suites controller-cost

.PHONY: scale
scale: setup ## Commands and serve with a thousand databases in the state, into docs/proof (root; 15 minutes)
	$(VENV)/python -m tests.proof.scale

# GRAMPUS_DENSITY_VOLUMES=N and GRAMPUS_DENSITY_LOAD_S=N say how many, and how long under load.
.PHONY: density
density: setup ## Memory and threads of 50 volumes on one host, into docs/proof (root; fifteen minutes)
	$(VENV)/python -m tests.proof.density

# GRAMPUS_JOURNAL_SPACE_LOAD_S=N says how long.
.PHONY: journal-space
journal-space: setup ## What the journals of ten volumes take of their OSDs' databases, into docs/proof (root; 75 minutes)
	$(VENV)/python -m tests.proof.journal_space

# GRAMPUS_SITE_ROUNDS=N, GRAMPUS_SITE_LOADS=N and GRAMPUS_SITE_LOAD_S=N make it shorter.
.PHONY: site-costs
site-costs: setup ## Commands and commits on a site against those in a lab, into docs/proof (root; half an hour)
	$(VENV)/python -m tests.proof.site

# GRAMPUS_OPERATIONS_ON=site tries them on a site.
.PHONY: operations
operations: setup ## Each operation on a database under load, 200 MB and 5 GB, into docs/proof (root; an hour)
	$(VENV)/python -m tests.proof.operations

# The checker of histories (docs/adr/0056).
ADYA := build/tools/bin/adya
$(ADYA):
	@$(CARGO) install adya --version 0.1.0 --locked --no-default-features --quiet \
		--root "$(CURDIR)/build/tools"

# `make chaos RUNS=100 SEED=7`; GRAMPUS_CHAOS_ON=site provokes faults on a site. Interrupted, it goes
# on with the next call; with CONTINUE=1, after the runs of that seed that are in docs/proof.
.PHONY: chaos
chaos: setup $(ADYA) ## Faults at random against a database under `grampus serve`, into docs/proof (root; a minute each)
	RUNS=$(RUNS) SEED=$(SEED) CONTINUE=$(CONTINUE) $(VENV)/python -m tests.proof.chaos

# Interrupted, it goes on with the next call; GRAMPUS_EXPERIMENTS=NAME,NAME chooses.
.PHONY: experiments
experiments: setup ## The published experiments on a lab, into docs/experiments (root; five hours)
	$(VENV)/python -m tests.proof.experiments

# GRAMPUS_VERDICTS=N says how often.
.PHONY: verdicts
verdicts: setup-check ## Whether the verdicts of benchmarks hold, simulated, into docs/proof (five minutes)
	nice -n 19 $(VENV)/python -m tests.proof.verdicts

.PHONY: acceptance
acceptance: setup ## Tests through the command line alone, on a lab of their own (root)
	$(VENV)/pytest tests/acceptance

.PHONY: site-tests
site-tests: setup ## The acceptance and fault tests that take a `place`, on a site (root; half an hour)
	GRAMPUS_TESTS_ON=site $(VENV)/pytest tests/acceptance tests/integration

.PHONY: fmt
fmt: setup-check ## Format the code
	$(VENV)/ruff check --fix $(PYTHON_SOURCES)
	$(VENV)/ruff format $(PYTHON_SOURCES)
	$(CARGO) fmt --all

# With --quiet, mkdocs counts no warnings, and --strict would find nothing.
.PHONY: docs
docs: setup-check ## Check docs/reference against the code, and build the site in build/site
	$(VENV)/python scripts/write_reference.py --check
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --strict

.PHONY: reference
reference: setup-check ## Write docs/reference again
	$(VENV)/python scripts/write_reference.py

.PHONY: bench
bench: ## Measure the demo database again
	./grampus bench run quick --db demo

.PHONY: clean
clean: ## Remove what was built (labs stay: `./grampus lab down`)
	rm -rf .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis dataplane/target
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The one entry point: CI runs these targets and nothing else. `make` lists them.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go

# Each module stands for itself: no workspace may lend it another's versions.
export GOWORK := off

# Modules with a go.mod of their own; there may be none.
NESTED := $(sort $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 \( -name '.?*' -o -name testdata -o -name bin \) -prune -o -name go.mod -print)))

# Budgets. CI uses these; nightly sets its own.
SIM_RACE_SEEDS ?= 20000
SIM_SEEDS      ?= 60000
SIM_FIRST      ?= 1
SIM_TWICE      ?= 1000
FUZZTIME       ?= 10s
BENCHTIME      ?= 1s
PEER_ROUNDS    ?= 41
NIGHTLY_SEEDS  ?= 10000000
NIGHTLY_FUZZ   ?= 5m
COVER_FLOOR    ?= 90
BACKOFF_FLOOR  ?= 95
COVER_PACKAGES := . ./driver ./memstore

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(CURDIR)/bin/golangci-lint-$(GOLANGCI_VERSION)

# $(call each-nested,command) runs a command in each nested module; tested-nested
# in each whose tests need no container engine.
each-nested   = for m in $(NESTED); do echo "== $$m"; (cd "$$m" && $(1)); done
tested-nested = for m in $(filter-out integration,$(NESTED)); do echo "== $$m"; (cd "$$m" && $(1)); done

comma := ,

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))


# The parts of test, one after the other, each with its time.
TEST_PARTS := servers vet test-race sim mutants-short bench-smoke examples integration-local

.PHONY: test
test: ## All that CI requires: servers, vet, -race, simulation, mutants, every module
	@for part in $(TEST_PARTS); do \
		begin=$$SECONDS; \
		$(MAKE) --no-print-directory $$part || { echo "== make $$part: FAILED after $$((SECONDS - begin)) s"; exit 1; }; \
		echo "== make $$part: passed in $$((SECONDS - begin)) s, at $$SECONDS s"; \
	done

.PHONY: test-short
test-short: ## What to run while editing: short tests, cached, no -race
	$(GO) vet ./...
	$(GO) test -short ./...

.PHONY: oldest
oldest: ## The short tests with the oldest Go that go.mod allows, which the go command fetches
	GOTOOLCHAIN=go$$($(GO) mod edit -json | sed -n 's/.*"Go": "\(.*\)".*/\1/p') $(GO) test -count=1 -short ./...

.PHONY: vet
vet: ## go vet and go.mod, in every module
	$(GO) vet ./...
	$(GO) mod tidy -diff
	@$(call each-nested,$(GO) vet ./... && $(GO) mod tidy -diff)

.PHONY: servers
servers: ## Find the servers that tests start, or install them (Debian, Ubuntu, root)
	@$(GO) run ./internal/testenv/servers

# Not cached: tests that reach a server depend on more than the cache sees. The
# packages that start servers run one after the other, so that not all of their
# servers run at once.
RACE := $(GO) test -race -count=1 -shuffle=on -timeout=15m
.PHONY: test-race
test-race: ## All tests of every module with -race, in random order
	@list=$$($(GO) list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./...); \
	heavy=$$(awk '/ github.com\/idem-go\/idem\/internal\/testenv( |$$)/ { print $$1 }' <<<"$$list" | sort -u); \
	[ -n "$$heavy" ] || { echo "test-race: no package starts a server"; exit 1; }; \
	light=$$($(GO) list ./... | grep -vxF "$$heavy"); \
	set -x; $(RACE) $$light; $(RACE) -p 1 $$heavy
	@$(call tested-nested,$(RACE) -p 1 ./...)

.PHONY: deps
deps: ## The core compiles the standard library and itself, nothing else
	$(GO) test -count=1 -run 'Dependenc' .

.PHONY: sim
sim: ## L1, every pair of faults, and L2: SIM_RACE_SEEDS with -race, SIM_SEEDS without, from SIM_FIRST on
	@$(GO) test -list '^TestSimulat' ./internal/sim | grep '^TestSimulat' # a pattern that matches nothing would pass
	$(GO) test -race -count=1 -timeout=30m -v -run '^TestSimulatedFaults' ./internal/sim -sim.first=$(SIM_FIRST) -sim.seeds=$(SIM_RACE_SEEDS)
	$(GO) test -count=1 -timeout=30m -v -run '^TestSimulat' ./internal/sim -sim.first=$(SIM_FIRST) -sim.seeds=$(SIM_SEEDS) -sim.twice=$(SIM_TWICE) -sim.pairs=1

.PHONY: mutants mutants-short
mutants-short: ## Break the code in each listed way; each must be caught, first kill counts
	$(GO) run ./internal/mutants -short
mutants: ## The same with every layer, and the table of what caught what
	$(GO) run ./internal/mutants

.PHONY: examples
examples: ## Build every example and run the quick start
	$(GO) build -o bin/examples/ ./examples/...
	$(GO) run ./examples/quickstart

.PHONY: integration integration-local
integration: ## The suites over each version of each server, in containers (pulls images)
	cd integration && $(GO) test -count=1 -v -timeout=60m ./...
integration-local: ## The same path with two images made from local binaries, and an engine if none answers
	GO=$(GO) bash integration/local.sh

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint $(GOLANGCI_VERSION) in every module
	$(GOLANGCI) run --allow-parallel-runners ./...
	@$(call each-nested,$(GOLANGCI) run --allow-parallel-runners ./...)

.PHONY: fmt
fmt: $(GOLANGCI) ## Format as lint wants it
	$(GOLANGCI) fmt ./...
	@$(call each-nested,$(GOLANGCI) fmt ./...)

# The name carries the version, so that a new version is built and an old one is
# not found. It is built outside every module: no go.mod of ours knows of it.
$(GOLANGCI):
	@mkdir -p $(@D)
	GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(@D)/golangci-lint $@


# One profile over the tests of all three packages, reported by package: the
# conformance suite that memstore runs is what covers driver.
.PHONY: cover
cover: ## Coverage of root, driver and memstore, and of backoff; fails under COVER_FLOOR and BACKOFF_FLOOR per cent
	@rm -rf bin/cover && mkdir -p bin/cover
	$(GO) test -count=1 -cover -coverpkg=$(subst $() ,$(comma),$(COVER_PACKAGES)) $(COVER_PACKAGES) -args -test.gocoverdir=$(CURDIR)/bin/cover
	@$(GO) tool covdata percent -i=bin/cover | awk -v floor=$(COVER_FLOOR) ' \
		{ p = $$0; sub(/.*coverage: /, "", p); sub(/%.*/, "", p); ok = p + 0 >= floor; bad += !ok; n++ } \
		{ printf "%-40s %6.1f %% %s\n", $$1, p, ok ? "" : "under the floor of " floor " %" } \
		END { if (n != $(words $(COVER_PACKAGES))) { print "cover: " n " packages measured, not $(words $(COVER_PACKAGES))"; exit 1 } exit bad > 0 }'
	@$(GO) test -count=1 -cover ./backoff | awk -v floor=$(BACKOFF_FLOOR) ' \
		{ print } match($$0, /coverage: [0-9.]+/) { p = substr($$0, RSTART + 10, RLENGTH - 10) + 0 } \
		END { if (p < floor) { print "cover: backoff is under the floor of " floor " %"; exit 1 } }'

.PHONY: bench bench-smoke
bench: ## All benchmarks, BENCHTIME each
	$(GO) test -run '^$$' -bench . -benchmem -benchtime=$(BENCHTIME) ./...
bench-smoke: ## Each benchmark once, so that none rots
	$(GO) test -short -run '^$$' -bench . -benchtime=1x ./...

.PHONY: bench-peers probe-peers
bench-peers: ## Package backoff and other libraries at the same work, in PEER_ROUNDS turns each
	cd benchmarks && $(GO) run ./speed -rounds=$(PEER_ROUNDS)
probe-peers: ## What other libraries answer to the questions that package backoff is tested with
	cd benchmarks && $(GO) test -count=1 -v ./retry

.PHONY: simulate
simulate: ## The jitter simulation: prints the table, writes docs/jitter.svg
	$(GO) run ./backoff/simulate


.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME
	@list=$$($(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ { n[++k] = $$1 } /^ok/ { for (i = 1; i <= k; i++) print $$2, n[i]; k = 0 }'); \
	while read -r pkg name; do \
		[ -n "$$name" ] || continue; \
		echo "== $$name in $$pkg"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
	done <<<"$$list"

.PHONY: nightly
nightly: ## Tests again and again, the oldest Go, NIGHTLY_FUZZ a fuzz target, NIGHTLY_SEEDS seeds, every mutant
	$(MAKE) oldest
	$(GO) test -race -count=20 -shuffle=on -timeout=2h . ./memstore
	$(GO) test -race -count=5 -shuffle=on -timeout=2h -p 1 ./redisstore ./pgstore ./internal/testenv
	$(MAKE) fuzz FUZZTIME=$(NIGHTLY_FUZZ)
	$(GO) test -count=1 -timeout=0 -v -run '^TestSimulat' ./internal/sim -sim.first=$(SIM_FIRST) -sim.seeds=$(NIGHTLY_SEEDS) -sim.twice=$(SIM_TWICE) -sim.pairs=1
	$(MAKE) mutants

.PHONY: latest
latest: ## Move every module to the newest dependencies, as CI does daily
	$(GO) get -u -t ./...
	$(GO) mod tidy
	@$(call each-nested,$(GO) get -u -t ./... && $(GO) mod tidy)

.PHONY: clean
clean: ## Remove what the other targets built
	rm -rf bin

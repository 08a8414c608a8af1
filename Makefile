# Each target's comment after ## is its line in `make help`.
.DEFAULT_GOAL := help
GO ?= go

.PHONY: help
help: ## Explain every target
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { gsub(" // ", sprintf("\n%19s", ""), $$2); printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Serve the sample at http://localhost:8080, with a worker in the same process
	$(GO) build -o bin/ ./cmd/web
	@bin/web

.PHONY: test
test: ## Run all tests with the race detector: some 25 minutes on two cores. Where it may, it first installs // a C compiler, spin, Redis, Chromium, Node.js and npm, and by npm Azurite (61 MB); else it says what is missing
	@GO=$(GO) scripts/test.sh

.PHONY: test-short
test-short: ## Run the quick tests only, without the race detector
	$(GO) test -short -timeout 5m ./...

.PHONY: test-azure
test-azure: ## Run the Azure tests on a real account: ACCOUNT=NAME, or MILLRACE_TEST_AZURE=CONNECTION-STRING in the environment
	@GO=$(GO) ACCOUNT='$(ACCOUNT)' scripts/test-azure.sh

.PHONY: lint
lint: ## Check form: gofmt, go vet, staticcheck, go.mod, the architecture
	@GO=$(GO) scripts/lint.sh

.PHONY: bench
bench: ## Run every benchmark briefly, below 3 minutes; COUNT=6 BENCHTIME=1s for benchstat
	@GO=$(GO) BENCH='$(value BENCH)' scripts/bench.sh

.PHONY: bench-compare
bench-compare: ## Compare benchmarks of two revisions by benchstat: BASE=REVISION BENCH=PATTERN, HEAD=REVISION, PKG=./worker, COUNT, BENCHTIME
	@GO=$(GO) BASE='$(BASE)' HEAD='$(HEAD)' BENCH='$(value BENCH)' PKG='$(PKG)' scripts/bench-compare.sh

.PHONY: bench-peers
bench-peers: ## Measure other job systems beside Millrace, about an hour, with PostgreSQL and Redis, which it installs; ARGS='-list', ARGS='-systems millrace,river -works drain -svg FILE'
	@GO=$(GO) scripts/bench-peers.sh $(ARGS)

.PHONY: bench-coord
bench-coord: ## Measure numbers, leases, leaders, gates and signals beside PostgreSQL, Redis and etcd, which it installs, some ten minutes; ARGS='-list', ARGS='-works lease -json FILE'
	@GO=$(GO) scripts/bench-coord.sh $(ARGS)

.PHONY: bench-processes
bench-processes: ## Measure systems for work of many steps, with PostgreSQL, which it installs, half an hour or more; ARGS='-list', ARGS='-works steps64,idle -json FILE'
	@GO=$(GO) scripts/bench-processes.sh $(ARGS)

.PHONY: bench-outage
bench-outage: ## Measure what job systems do while a service is away for ten minutes, with PostgreSQL and Redis, which it installs, about half an hour; ARGS='-list', ARGS='-systems millrace,river -for 2m'
	@GO=$(GO) scripts/bench-outage.sh $(ARGS)

.PHONY: bench-curves
bench-curves: ## Measure how Millrace behaves as its work grows, some half an hour; ARGS='-curves age,hot -json FILE -svg FOLDER'
	@cd bench && $(GO) build -o ../.cache/bench-curves/ ./curves
	@.cache/bench-curves/curves $(ARGS)

.PHONY: bench-files
bench-files: ## Measure uploads and downloads with keys beside bare ones, some 2 minutes; ARGS='-works disk,memory -rounds 9'
	@cd bench && $(GO) build -o ../.cache/bench-files/ ./files
	@.cache/bench-files/files $(ARGS)

.PHONY: bench-settings
bench-settings: ## Measure how long a change of settings takes until all processes run it, some 2 minutes; ARGS='-nodes 2,8,32 -changes 1000'
	@cd bench && $(GO) build -o ../.cache/bench-settings/ ./settings
	@.cache/bench-settings/settings $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz test for some seconds; FUZZTIME=1m for longer
	@GO=$(GO) scripts/fuzz.sh

.PHONY: stranger
stranger: ## Follow docs/first-program.md in a module elsewhere, and copy the sample into one; also a part of make test
	@GO=$(GO) scripts/stranger.sh

.PHONY: simulate
simulate: ## Test the promise under random faults in virtual time: SEEDS=1000 schedules, or SEED=123 alone with its history
	@SEED='$(SEED)' SEEDS='$(SEEDS)' GO=$(GO) scripts/simulate.sh

.PHONY: model
model: ## Check the models of the promise, of processes and of settings in their large worlds, too: some minutes, with spin
	MILLRACE_WORLDS=all $(GO) test ./proof/model -count=1

.PHONY: scale
scale: ## Simulate up to 1,000 workers on a modelled Azure account, some twenty minutes on one core; BURST=1000000 for a burst too
	GOMAXPROCS=1 GOGC=300 MILLRACE_SCALE=$(CURDIR)/docs/measured/scale MILLRACE_SCALE_BURST=$(BURST) $(GO) test ./proof/scale -run '^TestScale$$' -count=1 -v -timeout 0

.PHONY: upload-kills
upload-kills: ## Upload a file of a gigabyte while client, web and worker are killed; SIZE=104857600 bytes, SEED=7
	MILLRACE_UPLOAD_SIZE=$(or $(SIZE),1073741824) MILLRACE_SEED=$(SEED) $(GO) test ./files/valet -run '^TestUploadSurvivesKills$$/^sqlite$$' -count=1 -v -timeout 30m

.PHONY: mutants
mutants: ## Break one law at a time, some 8 minutes: the tests must catch each
	$(GO) run ./cmd/internal/mutants

.PHONY: screenshot
screenshot: ## Take the picture of the operators' pages in the documentation again: docs/ops.png
	MILLRACE_REQUIRE=chromium MILLRACE_PICTURE=$(CURDIR)/docs/ops.png $(GO) test ./ops -run '^TestPictureOfTheFirstPage$$' -count=1

.PHONY: cover
cover: ## Run the quick tests and print how much of each package they cover
	@mkdir -p .cache
	$(GO) test -short -timeout 5m -coverpkg=./... -coverprofile=.cache/cover.out ./...
	$(GO) tool cover -func=.cache/cover.out | tail -n 1
	@echo "Line by line: $(GO) tool cover -html=.cache/cover.out"

.PHONY: chaos
chaos: ## Kill, stall and cut off real processes for some half an hour, then audit; takes SEED=7 and ARGS='-store sqlite'
	@GO=$(GO) SEED='$(SEED)' scripts/chaos.sh $(ARGS)

.PHONY: chaos-short
chaos-short: ## The same in some five minutes, on all stores together
	@GO=$(GO) SEED='$(SEED)' scripts/chaos.sh -short $(ARGS)

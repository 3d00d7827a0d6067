# `make` alone prints what there is to do.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

LINT_VERSION := v2.15.0
LINT         := .bin/golangci-lint
VERSION      := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: help
help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done

.PHONY: run
run: ## chat with the example club in a simulated Slack, in the browser
	@go run ./cmd/bot playground examples/club

.PHONY: test
test: deps ## run every test, with the race detector where there is a C compiler
	@race=-race; \
	if [ "$$(go env CGO_ENABLED)" != 1 ]; then race=; echo "no C compiler here: the tests run without -race"; fi; \
	set -x; go test $$race -shuffle=on -count=1 ./...

.PHONY: check
check: lint test ## all that a change must pass: format, lint, vet, tests (one holds the README to the commands)
	go vet -tags soak ./...

.PHONY: soak
soak: ## run the long loops (kills, mutations), up to 30 minutes
	go test -tags soak -run Soak -count=1 -timeout 30m ./...

.PHONY: bench
bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: build
build: ## build the static binary bin/bot
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/bot ./cmd/bot

.PHONY: deps
deps: ## bring what the tests need beyond Go
	@.ci/deps

.PHONY: lint
lint: lint-tool ## check format and style
	$(LINT) fmt --diff
	$(LINT) run ./...

.PHONY: fmt
fmt: lint-tool ## put the code into its format
	$(LINT) fmt

.PHONY: docs
docs: ## write docs/pack.md from the types of the pack
	go test -count=1 -run '^TestReference$$' ./config -update

# Built from source at the pinned version. A binary of another version, or one built by an older Go than the one at
# hand (it would refuse the module), is built anew.
.PHONY: lint-tool
lint-tool:
	@if ! go version -m $(LINT) 2>/dev/null | grep -q 'golangci-lint/v2[[:space:]]$(LINT_VERSION)[[:space:]]' || \
		[ "$$(go version $(LINT) | cut -d' ' -f2)" != "$$(go env GOVERSION)" ]; then \
		echo "installing golangci-lint $(LINT_VERSION) into .bin (a few minutes, once)"; \
		GOBIN=$(CURDIR)/.bin GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION); \
	fi

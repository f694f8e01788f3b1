# The one front door. `make demo`, `make test` and `make check` each do all their set-up, and are quick when it is done.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test check replay unit format bench measure docs site pictures sandbox sandbox-down wheel clean demo-here test-here

BIN := .venv/bin
# CPU torch is enough for the tests; any requirement that pip understands will do.
export TORCH ?= torch==2.13.0
# Services that must be there, for example REQUIRE=slurm,etcd,torch,fuse,faketime,netns: an absent one is a failure and not a skip.
REQUIRE ?=
# What to test: make test TESTS=tests/integration/slurm
TESTS ?= tests
BENCHMARKS ?= $(basename $(notdir $(shell grep -l __main__ benchmarks/*.py)))
# Where `make sandbox` puts its Slurm; empty: the default of `hpc-elastic sandbox`.
SANDBOX ?=

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

demo: ## two minutes: a job is preempted, saves, is requeued, resumes and finishes (root: a real Slurm; else the local cluster)
	@tools/reachable $(MAKE) --no-print-directory demo-here
demo-here:
	@tools/set-up venv examples services
	@exec $(BIN)/python -m hpc_elastic.testing.demo

test: ## every test; the ones whose service is missing say so (REQUIRE=slurm,etcd,torch,fuse,faketime,netns,... makes that a failure)
	@tools/reachable $(MAKE) --no-print-directory test-here
test-here:
	@tools/set-up venv test torch adapters services
	@$(BIN)/python -m tools.run_tests $(if $(REQUIRE),--require $(REQUIRE)) $(TESTS)

check: ## under a minute: format, lint, types, import layers, shell, unit tests
	@tools/set-up venv lint
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	shellcheck sbatch/*.sh .ci/run tools/set-up tools/reachable tools/slurm_root
	$(BIN)/python -m pytest -q --no-header tests/unit

unit: ## the unit tests alone, seconds
	@tools/set-up venv test
	@$(BIN)/python -m pytest -q tests/unit

replay: ## the story of one simulated run: make replay SEED=17
	@tools/set-up venv
	@$(BIN)/python -m hpc_elastic.testing.simulation --replay $(SEED)

format: ## let ruff format and fix what it can
	@tools/set-up venv lint
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: ## the benchmarks, results on the screen
	@tools/set-up venv test torch
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

measure: ## the benchmarks again, results into docs/measured/ with commit, machine and versions
	@tools/set-up venv test torch
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name --write; done

sandbox: ## a private real Slurm to play with (root); SANDBOX=DIR says where
	@tools/set-up venv examples services
	@$(BIN)/hpc-elastic sandbox up $(if $(SANDBOX),--dir $(SANDBOX))
sandbox-down: ## and away with it
	@$(BIN)/hpc-elastic sandbox down $(if $(SANDBOX),--dir $(SANDBOX))

wheel: ## dist/*.whl
	@tools/set-up venv test
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . && ls dist

docs: ## write the pages that are made from the code
	@tools/set-up venv
	$(BIN)/python -m tools.generate_docs

site: ## the pages as a web site in build/site, with every link checked
	@tools/set-up venv site
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/site && echo build/site/index.html

pictures: ## docs/pictures, from a real run on the local cluster (needs Chromium)
	@tools/set-up venv lint
	$(BIN)/python -m tools.take_pictures

clean: ## remove what the targets above made here (the Debian packages stay)
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

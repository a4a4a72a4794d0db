# Every target does its own set-up: a fresh machine needs nothing but make (and apt packages it may install as root).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint check format docs bench clean

VENV := .venv
RUN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

help: ## What there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

$(VENV)/.core: pyproject.toml scripts/setup.sh
	@scripts/setup.sh core

$(VENV)/.dev: pyproject.toml scripts/setup.sh
	@scripts/setup.sh dev

demo: $(VENV)/.core ## Set up, then show the main job on shipped dumps of a real job
	@$(RUN)/provstore demo

test: $(VENV)/.dev ## Set up everything, then run all tests
	@$(RUN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/.dev ## Format, lint, types, import contracts
	@$(RUN)/ruff format --check .
	@$(RUN)/ruff check .
	@$(RUN)/mypy
	@$(RUN)/lint-imports --no-cache

check: lint ## Lint, and the tests of the docs and of the layout
	@$(RUN)/python -m pytest -q -n 2 --dist loadfile tests/docs tests/test_house.py

format: $(VENV)/.dev ## Rewrite the code in the one format
	@$(RUN)/ruff format .
	@$(RUN)/ruff check --fix .

docs: $(VENV)/.dev ## Make the reference pages, pictures and shown output anew
	@$(RUN)/python scripts/make_reference.py
	@$(RUN)/python tests/docs/console.py --write README.md docs/howto/*.md docs/explanation/*.md

clean: ## Remove what the targets made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

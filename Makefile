PYTHON ?= .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help install test test-quick test-slow test-lowest check types docs format constraints

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## Make .venv with the tested versions of everything, and this package in editable form
	python3 -m venv .venv
	.venv/bin/pip install -c constraints.txt -e ".[dev]"

test: ## Run the tests, a worker for each core
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n auto

test-quick: ## Run the most informative tests, in about a minute
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n auto -m "quick and not slow"

test-slow: ## Run the tests that take minutes
	$(PYTHON) -m pytest -m slow

# uv chooses the lowest versions of direct dependencies. torch stays at the tested one: PyPI has its earlier builds for
# Linux only with CUDA, several GB. Old packages warn about the new ones below them, which our code cannot help.
test-lowest: ## Run the quick tests with the lowest versions that pyproject.toml allows
	rm -rf build/lowest && python3 -m venv build/lowest
	build/lowest/bin/pip install -q uv -c constraints.txt torch
	build/lowest/bin/pip freeze | grep '^torch==' > build/lowest/torch.txt
	build/lowest/bin/uv pip install -q --python build/lowest/bin/python --resolution lowest-direct \
		--override build/lowest/torch.txt -e ".[test]"
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -n auto -m "quick and not slow" \
		-W ignore::DeprecationWarning -W ignore::FutureWarning

check: ## Lint and check the formatting, changing nothing
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types: ## Type-check the public API
	$(PYTHON) -m ty check

docs: build/explorer/index.html ## Build the site in build/docs; warnings are errors
	rm -rf build/pages build/docs
	mkdir -p build/pages && cp -r build/explorer build/pages/explorer
	$(PYTHON) docs/stage.py
	$(PYTHON) -m zensical build --clean --strict

# The explorer's page with one checkpoint; rebuilt when the page changes.
build/explorer/index.html: $(wildcard vaswani_transformer/explorer/*.py vaswani_transformer/explorer/page/* vaswani_transformer/explorer/page/*/*)
	rm -rf build/explorer
	$(PYTHON) -m vaswani_transformer explore --export build/explorer

format: ## Format the code and apply the linter's fixes
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

constraints: ## Record the versions in .venv as the tested set (accelerator packages and build labels left out)
	sed -n '/^#/p' constraints.txt > constraints.new
	$(PYTHON) -m pip freeze --exclude-editable | grep -vE '^(nvidia|cuda|triton)' | sed 's/+[a-z0-9.]*$$//' >> constraints.new
	mv constraints.new constraints.txt

# The first Python at hand that runs and is 3.11, 3.12 or 3.13; name another with PYTHON=/path/to/python.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(SUITABLE)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
STAMP := $(VENV)/.installed
# Of pytest, for two cores: some tests wait for processes.
WORKERS := 3
export XLA_PYTHON_CLIENT_PREALLOCATE ?= false

.PHONY: train check test lint site docs clean

train: $(STAMP)
	$(VENV)/bin/calql train

# For every save: all that is quick.
check: lint
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 -m "not slow"

test:
	$(MAKE) --jobs 2 lint site
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

lint: $(STAMP)
	$(VENV)/bin/ruff check src tests
	$(VENV)/bin/ruff format --check src tests
	$(VENV)/bin/mypy

site: $(STAMP)
	$(VENV)/bin/mkdocs build --strict --site-dir $(VENV)/site

docs: $(STAMP)
	$(VENV)/bin/mkdocs serve

clean:
	rm -rf $(VENV) build dist site

$(STAMP): pyproject.toml requirements-dev.lock
	@test -n "$(PYTHON)" || { echo "calql needs Python 3.11, 3.12 or 3.13: install one, or name it with PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet --no-deps --require-hashes --requirement requirements-dev.lock
	$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

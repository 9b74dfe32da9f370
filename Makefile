# The first Python at hand that runs and is 3.11 or 3.12; name another with PYTHON=/path/to/python.
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python; do \
	$$p -c '$(SUITABLE)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
STAMP := $(VENV)/.installed
export XLA_PYTHON_CLIENT_PREALLOCATE ?= false

.PHONY: train test lint docs clean

train: $(STAMP)
	$(VENV)/bin/calql train

test: $(STAMP)
	$(VENV)/bin/ruff check src tests
	$(VENV)/bin/ruff format --check src tests
	$(VENV)/bin/mypy
	$(VENV)/bin/mkdocs build --strict --quiet --site-dir $(VENV)/site
	$(VENV)/bin/pytest -n 2 --dist loadgroup --max-worker-restart 0

docs: $(STAMP)
	$(VENV)/bin/mkdocs serve

clean:
	rm -rf $(VENV) build dist site

$(STAMP): pyproject.toml requirements-dev.lock
	@test -n "$(PYTHON)" || { echo "calql needs Python 3.11 or 3.12: install one, or name it with PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet --no-deps --require-hashes --requirement requirements-dev.lock
	$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

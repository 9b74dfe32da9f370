PYTHON ?= $(shell command -v python3.12 || command -v python3.11 || command -v python3)
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
	$(VENV)/bin/pytest -n 2 --dist loadgroup

docs: $(STAMP)
	$(VENV)/bin/mkdocs serve

clean:
	rm -rf $(VENV) build dist site

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 12); sys.exit(0 if ok else "calql needs Python 3.11 or 3.12, and this is " + sys.version.split()[0] + ": set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet --constraint requirements.lock --editable '.[dev]'
	touch $(STAMP)

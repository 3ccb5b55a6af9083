PYTHON ?= python3

.PHONY: check format lint types test

check: lint types test
format:
	ruff check --fix .
	ruff format .
lint:
	ruff check .
	ruff format --check .
types:
	mypy
test:
	$(PYTHON) -m pytest

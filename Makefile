PYTHON ?= python3

.PHONY: check format lint types test
check: lint types test
format:
	ruff format .
	ruff check --fix .
lint:
	ruff format --check .
	ruff check .
types:
	mypy moolib envs agent plots plot.py
test:
	$(PYTHON) -m pytest

# `make` is what the CI runs: everything, from a fresh virtual environment.
.PHONY: all quick docs format

all:
	.ci/run

# The same checks in the environment that is active now.
quick:
	ruff check .
	ruff format --check .
	mypy --strict
	python scripts/write_docs.py --check
	python -m pytest -n 2

docs:
	python scripts/write_docs.py
	python scripts/write_tutorial.py

format:
	ruff check --fix .
	ruff format .

# Both commands work on a fresh machine: everything they need goes into .venv.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test lint browser bench bench-gpu clean

demo: $(STAMP)
	$(VENV)/bin/sightunseen demo --out demo-results --overwrite

test: lint browser
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	$(MAKE) demo

# The tests of pages drive a real Chromium; where there is none and it cannot be installed, they are skipped and say so.
browser:
	@command -v chromium > /dev/null || (apt-get update -qq && apt-get install -y -qq chromium > /dev/null) || echo "no chromium"

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(STAMP)
	$(VENV)/bin/python benchmarks/loading.py
	$(VENV)/bin/python benchmarks/prediction.py
	$(VENV)/bin/python benchmarks/training.py --device cpu
	$(VENV)/bin/python benchmarks/growth.py --device cpu
	$(VENV)/bin/python benchmarks/seeds.py --device cpu

bench-gpu: $(STAMP)
	$(VENV)/bin/python benchmarks/training.py --device cuda --million
	$(VENV)/bin/python benchmarks/growth.py --device cuda
	$(VENV)/bin/python benchmarks/accuracy.py --device cuda
	$(VENV)/bin/python benchmarks/seeds.py --device cuda --seeds 10 --tasks 2000

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo-results

# Both `make demo` and `make test` work on a fresh machine: everything they need goes into .venv.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-fast lint docs browser chaos fuzz soak bench bench-gpu lock sbom audit dist smoke clean

demo: $(STAMP)
	$(VENV)/bin/sightunseen demo --out demo-results --overwrite

# Lint, types, layers, every test, and the demo.
test: lint
	@command -v chromium > /dev/null || echo "Chromium is not installed: the tests of pages are skipped. Install it with: make browser"
	$(PYTEST)
	$(MAKE) demo

# The inner loop: unit tests and doctests, without those marked slow.
test-fast: $(STAMP)
	$(PYTEST) -q -m "not slow" tests/unit src

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The documentation site, without network: docs/_build/html/index.html. The examples of the gallery are run; warnings are errors.
docs: $(STAMP)
	rm -rf docs/generated/api  # pages of names that are no longer public
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m sphinx -W --keep-going -j auto -b html docs docs/_build/html

# Chromium from Debian's packages, for the tests of pages.
browser:
	command -v chromium > /dev/null || (apt-get update -qq && apt-get install -y -qq chromium > /dev/null)

# Reliability campaigns, see docs/reliability.md: crashes and failing disks at every file operation, malformed input, load.
chaos: $(STAMP)
	$(VENV)/bin/python -m tests.faults.chaos

fuzz: $(STAMP)
	$(VENV)/bin/python -m tests.faults.fuzz --minutes 30

soak: $(STAMP)
	$(VENV)/bin/python benchmarks/soak.py --minutes 30

bench: $(STAMP)
	$(VENV)/bin/python benchmarks/loading.py
	$(VENV)/bin/python benchmarks/prediction.py
	$(VENV)/bin/python benchmarks/training.py --device cpu
	$(VENV)/bin/python benchmarks/growth.py --device cpu
	$(VENV)/bin/python benchmarks/seeds.py --device cpu

bench-gpu: $(STAMP)
	$(VENV)/bin/python benchmarks/training.py --device cuda --million
	$(VENV)/bin/python benchmarks/generative.py --device cuda
	$(VENV)/bin/python benchmarks/growth.py --device cuda
	$(VENV)/bin/python benchmarks/accuracy.py --device cuda
	$(VENV)/bin/python benchmarks/seeds.py --device cuda --seeds 10 --steps 2000

# Supply chain, see SECURITY.md: the lock file of a release, its bill of materials, known vulnerabilities.
lock: $(STAMP)
	$(VENV)/bin/python -m release.lock

sbom: $(STAMP)
	$(VENV)/bin/python -m release.sbom sbom.json

audit: $(STAMP)
	$(VENV)/bin/python -m release.audit

# The wheel and the source archive; then the wheel in empty environments, one for each extra, and the tutorials with it.
dist: $(STAMP)
	rm -rf dist
	$(VENV)/bin/python -m build
	$(VENV)/bin/twine check --strict dist/*

smoke: dist
	$(VENV)/bin/python -m release.smoke dist/*.whl

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable '.[dev,fuzz,supply]'
	touch $@

clean:
	rm -rf $(VENV) demo-results dist docs/_build docs/generated

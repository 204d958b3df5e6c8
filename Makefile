# The two commands of the README are `make demo` and `make test`; each is complete on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ENCODERS ?= minilm

.PHONY: demo test docs bench bench-gpu faults clean

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(INSTALLED)  ## train on real data, evaluate, and rank labels for a few texts
	@if [ -f runs/demo/run.json ]; then set -x; $(BIN)/longtail resume runs/demo; \
	else set -x; $(BIN)/longtail train unidec examples/debian-packages --out runs/demo; fi
	$(BIN)/longtail evaluate runs/demo
	@printf '%s\n' \
		'photo-sorter: organise and develop digital photographs' \
		'python3-blog: blog engine written in Python with Flask' \
		'tune-cli: play music files from the command line' \
		'texlive-linguistics: LaTeX packages for linguists' \
	| $(BIN)/longtail predict runs/demo --k 5 --table
	@echo "Type your own: $(BIN)/longtail predict runs/demo"

test: $(INSTALLED)  ## lint, types, then the whole suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu" -n 2 --dist loadfile

docs: $(INSTALLED)  ## the site, in build/site: strict, and without a request to another host
	$(BIN)/python docs/stage.py build/docs
	$(BIN)/zensical build --strict --clean

bench: $(INSTALLED)  ## slow and GPU checks
	$(BIN)/python -m pytest -m 'slow or gpu'

bench-gpu: $(INSTALLED)  ## with a card, nine minutes a call until it says that all is done: make bench-gpu DATA=FOLDER
	$(BIN)/python benchmarks/gpu.py $(DATA) --encoders $(ENCODERS)

faults: $(INSTALLED)  ## every call fails, every file is flipped, the power goes: counts into docs/explanation/reliability.md
	$(BIN)/python tests/faults/whole.py --write docs/explanation/reliability.md

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .cache

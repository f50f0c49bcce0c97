# Two commands are all a fresh machine needs: `make train` and `make test`. Both do their own set-up into .venv.
#
#   make train                       train the tiny BLOOM-style preset on 8 ranks (about 3.5 GB of memory)
#   make train RANKS=2               the same on 2 ranks (or 1), for small machines
#   make train ARGS="steps=50"       any recipe key, or another recipe: RECIPE=my_recipe.py
#   make train FRESH=1 | RESUME=1    a new run, or the last one; without either, an unfinished equal run is resumed
#   make test  [ARGS="-k layout"]    every test that needs no root and no other programs
#   make test-cluster                the tests under a real SLURM; installs it from Debian's packages, so it needs root
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

.PHONY: train test test-cluster check campaign setup setup-train clean

train: setup-train
	@$(VENV)/bin/emberward train $(RECIPE) --ranks $(RANKS) $(if $(FRESH),--fresh) $(if $(RESUME),--resume) $(ARGS)

test: setup
	@OMP_NUM_THREADS=1 $(VENV)/bin/python tools/run_tests.py $(ARGS)

test-cluster: setup
	@$(PYTHON) tools/setup_cluster.py
	@OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest tests/cluster $(ARGS)

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy src/emberward tools
	$(VENV)/bin/lint-imports

# Slow: thousands of replays, and every benchmark, side by side with its peer. Each writes its docs/measured/*.json.
campaign: setup
	$(VENV)/bin/python tools/campaign_replay.py 0 3000
	$(VENV)/bin/python tools/campaign_resume.py
	$(VENV)/bin/python tools/campaign_probe.py
	$(VENV)/bin/python benchmarks/checkpoint_async.py --output docs/measured/checkpoint_async.json
	$(VENV)/bin/python benchmarks/checkpoint_async.py --ranks 2 --output docs/measured/checkpoint_async_2.json
	$(VENV)/bin/python benchmarks/checkpoint_speed.py --output docs/measured/checkpoint_speed.json
	$(VENV)/bin/python tools/campaign_saves.py --output docs/measured/saves.json
	$(VENV)/bin/python benchmarks/match_scale.py
	$(VENV)/bin/python benchmarks/match_vs_torch.py --output docs/measured/match_vs_torch.json
	$(VENV)/bin/python benchmarks/engine_overhead.py --output docs/measured/engine_overhead.json
	$(VENV)/bin/python benchmarks/predictions.py
	$(VENV)/bin/python benchmarks/certificate_overhead.py --output docs/measured/certificate_overhead.json
	$(VENV)/bin/python tools/campaign_hangs.py
	$(VENV)/bin/python tools/campaign_strangers.py
	$(VENV)/bin/python tools/campaign_supervise.py --output docs/measured/supervise.json
	$(VENV)/bin/python benchmarks/run_overhead.py --output docs/measured/run_overhead.json
	$(VENV)/bin/python tools/campaign_explain.py
	$(VENV)/bin/python benchmarks/explain_scale.py --out docs/measured/explain_scale.json
	$(VENV)/bin/python tools/campaign_drift.py
	$(VENV)/bin/python tools/campaign_deepspeed.py
	$(VENV)/bin/python tools/campaign_convert.py
	$(VENV)/bin/python benchmarks/reshape.py
	$(VENV)/bin/python benchmarks/drift_cost.py --output docs/measured/drift_cost.json

setup-train:
	$(SETUP) --extras train

setup:
	$(SETUP) --extras train,test,check

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +

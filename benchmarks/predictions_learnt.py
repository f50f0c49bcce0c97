"""What a predictor that learns from published runs reaches: whether what prices miss is in what is known of a run.

    python benchmarks/predictions_learnt.py [--fresh]

Writes docs/measured/predictions_learnt.json. The rows are those of docs/measured/predictions.json with what each run
says of itself: the parts of its predicted time, layout, stack, device and model. A learner is given the runs of all
other sources and corrects the prediction of a run by them. Nothing of it is in the product (decision 0016): it says
what the best correction by such features gives. The learners are a factor, a line in the parts' shares (Huber's), and
boosted trees of several depths on all features; all of them minimise the absolute or a robust error of the logarithm.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from predictions import LEFT_OUT, MEASURES, _kind, unseen_runs
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import HuberRegressor
from sklearn.model_selection import GroupKFold

from emberward.report import PublishedRun, later_runs, published_runs, third_runs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

PREDICTIONS = Path(__file__).resolve().parents[1] / "docs" / "measured" / "predictions.json"
FOLDS = 20
DEPTHS = (1, 2, 3, 5)
SINCE = 5
"""The first unseen set that was met after predictions had lost what they had learnt."""
Numbers = npt.NDArray[np.float64]


def main() -> None:
    """Lets each learner predict the runs of sources that it has not seen, and writes what that gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "predictions_learnt",
        what="what a learner that knows the runs of all other sources makes of a prediction",
        measures=[*MEASURES, "docs/measured/predictions.json"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    unseen = {run.name: int(name.rpartition("_")[2]) for name in LEFT_OUT for run in unseen_runs(name)}
    runs = {run.name: run for run in (*published_runs().values(), *later_runs(), *third_runs())}
    runs |= {run.name: run for name in LEFT_OUT for run in unseen_runs(name)}
    rows = [each for each in json.loads(PREDICTIONS.read_text())["attempts"] if each["name"] in runs]
    missed = np.array([math.log(each["measured_s"] / each["predicted_s"]) for each in rows])
    sources = [_kind(each["name"]) for each in rows]
    late = np.array([unseen.get(each["name"], 0) >= SINCE for each in rows])
    parts = np.array([_shares(each) for each in rows])
    features = np.hstack([parts, np.array([_features(each, runs[each["name"]]) for each in rows]), _kinds(runs, rows)])
    learnt = {"none": np.zeros(len(rows)), "factor": np.zeros(len(rows)), "line in the parts": np.zeros(len(rows))}
    learnt |= {f"trees of depth {depth}": np.zeros(len(rows)) for depth in DEPTHS}
    for known, asked in GroupKFold(FOLDS).split(parts, missed, sources):
        learnt["factor"][asked] = np.median(missed[known])
        line = HuberRegressor(max_iter=2000).fit(parts[known], missed[known])
        learnt["line in the parts"][asked] = line.predict(parts[asked])
        for depth in DEPTHS:
            trees = GradientBoostingRegressor(
                loss="absolute_error", n_estimators=150, max_depth=depth, learning_rate=0.05, subsample=0.7,
                random_state=0,
            ).fit(features[known], missed[known])  # fmt: skip
            learnt[f"trees of depth {depth}"][asked] = trees.predict(features[asked])
    for name, found in learnt.items():
        errors = np.abs(np.expm1(found - missed))
        results.add(name, {"all": _figures(errors), "since": _figures(errors[late])})
    results.summarise({"sources": len(set(sources)), "runs": len(rows), "runs_since": int(late.sum())})


def _figures(errors: Numbers) -> dict[str, float]:
    return {
        "median_error": round(float(np.median(errors)), 4),
        "within_25_percent": round(float(np.mean(errors <= 0.25)), 4),
    }


def _shares(row: dict[str, Any]) -> list[float]:
    names = ("matmul", "attention", "memory", "tp", "dp", "waiting", "optimizer", "host")
    return [row["parts_s"].get(name, 0.0) / row["predicted_s"] for name in names]


def _features(row: dict[str, Any], run: PublishedRun) -> list[float]:
    plan = run.plan
    sizes = (plan.num_ranks, plan.tp, plan.pp, plan.micro_batch, plan.num_mb, row["predicted_s"], len(run.model.layers))
    flags = (plan.shards_parameters, plan.how.is_fused, bool(plan.how.recompute), plan.how.is_autocast)
    logs = [math.log(each) for each in (*sizes, run.model.sample.num_units)]
    return [row["predicted_mfu"], *logs, *map(float, flags)]


def _kinds(runs: dict[str, PublishedRun], rows: list[dict[str, Any]]) -> Numbers:
    """A column for each device and each number format."""
    words = [(runs[each["name"]].cluster.device.name, str(runs[each["name"]].plan.how.fmt)) for each in rows]
    columns = sorted({word for pair in words for word in pair})
    return np.array([[float(column in pair) for column in columns] for pair in words])


if __name__ == "__main__":
    main()

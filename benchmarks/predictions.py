"""Writes docs/measured/predictions.json: every published run beside its prediction, with the commit that predicted it.

python benchmarks/predictions.py
python benchmarks/predictions.py --first-contact predictions_1      what the model says of rows it has not met, once
"""

import argparse
import itertools
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path

from emberward.layout import Product
from emberward.report import (
    Comparison,
    PublishedRun,
    compare,
    later_runs,
    published_runs,
    ratio_of_schedules,
    rows_in,
    third_runs,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options, keep_first_contact

MEASURES = [
    "src/emberward/perf",
    "src/emberward/plan",
    "src/emberward/report/_published.py",
    "src/emberward/report/_published_hardware.py",
    "src/emberward/report/_published_later.py",
    "src/emberward/report/_published_model.py",
    "src/emberward/report/_published_rows.py",
    "src/emberward/report/_published_third.py",
    "src/emberward/report/_published_third_sharded.py",
]

UNSEEN = Path(__file__).resolve().parents[1] / "tests" / "unseen"
LEFT_OUT_3 = frozenset({"fa2paper-", "nvbert-large-128-a100x256-tf32"})
"""A source that an earlier set used, and numbers that `perf` has no rate for: left out before the first run."""
LEFT_OUT_4 = frozenset({"moddednanogpt-muon-", "nanotron-llama-1b-h100x8-dp1-tp1-pp8-mbs4"})
"""An optimizer of matrix products and a stage without a layer, which `StepPlan` cannot express: left out as above."""
LEFT_OUT_5 = frozenset(
    {
        "dgxc2504-llama31-8b-",
        "dgxc2504-llama31-70b-h100x64-bf16",
        "dgxc2504-llama31-405b-",
        "a3mega-nemo-",
        "llama3paper-405b-",
        "torchao-llama3-8b-h100x8-fp8-rowwise",
        "smolplaybook-",
    }
)
"""Context parallelism, stages without a layer and 8-bit scales by row, which `StepPlan` cannot express, and a document
that gave a rate to `perf`: left out as above."""
LEFT_OUT_6 = frozenset(
    {
        "mbridge2511-",
        "mbridge2606-llama31-405b-",
    }
)
"""Two rows whose figures an earlier set used, and context parallelism: left out as above. At the first contact also six
rows of devices that `perf` did not have then (MI250X, MI300X)."""

LEFT_OUT_7 = frozenset({"nanochat-", "torchao-titan-llama3-8b-h100x8-fp8row"})
"""An optimizer of matrix products and 8-bit scales by row: left out as above."""


LEFT_OUT_8 = frozenset({"dgxc-maxtext-"})
"""Recomputation of a list of products of its own (MaxText), which `StepPlan` cannot express: left out as above."""

LEFT_OUT_9 = frozenset({"nemolauncher2405-", "mosaic-examples-"})
"""Earlier editions of documents that an earlier set used: left out as above."""

LEFT_OUT_10 = frozenset({"flagperf-gpt345m-"})
"""TF32, for which `perf` has no rate, of a source of its rates: left out as above."""

LEFT_OUT_12 = frozenset({"ibeth-72b-"})
"""Two rows whose document gives two step times, one twice the other: left out as above."""

LEFT_OUT_14 = frozenset({"mlperf51-l31-8b-8mi350x"})
"""A device that `perf` does not have, refused at the first contact. Ten more rows were refused then for the adapter of
a network, which is no adapter of a model: those are in."""

LEFT_OUT_15 = frozenset({"ao-vitg-"})
"""A device that `perf` does not have, refused at the first contact."""

LEFT_OUT = {
    "predictions_3": LEFT_OUT_3,
    "predictions_4": LEFT_OUT_4,
    "predictions_5": LEFT_OUT_5,
    "predictions_6": LEFT_OUT_6,
    "predictions_7": LEFT_OUT_7,
    "predictions_8": LEFT_OUT_8,
    "predictions_9": LEFT_OUT_9,
    "predictions_10": LEFT_OUT_10,
    "predictions_11": frozenset(),
    "predictions_12": LEFT_OUT_12,
    "predictions_13": frozenset(),
    "predictions_14": LEFT_OUT_14,
    "predictions_15": LEFT_OUT_15,
    "predictions_16": frozenset(),
    "predictions_17": frozenset(),
    "predictions_18": frozenset(),
    "predictions_19": frozenset(),
    "predictions_20": frozenset(),
    "predictions_21": frozenset(),
}
"""The unseen sets, of each the beginnings of names that were left out before it was met."""


def unseen_runs(name: str, refused: dict[str, str] | None = None) -> Iterator[PublishedRun]:
    """The rows of tests/unseen/NAME; `refused`: see `rows_in`."""
    return rows_in(UNSEEN / name / "rows.json", without=LEFT_OUT[name], refused=refused)


FIRST_CONTACTS = {
    "predictions_1": ("published runs of MosaicML, IBM and NVIDIA beside their predictions", later_runs),
    "predictions_2": ("99 published runs of sources not used before beside their predictions", third_runs),
    "predictions_3": ("72 published runs of 14 sources not used before beside their predictions", None),
    "predictions_4": ("49 published runs of 13 documents not used before beside their predictions", None),
    "predictions_5": ("50 published runs of documents not used before beside their predictions", None),
    "predictions_6": ("40 published runs of 16 documents not used before beside their predictions", None),
    "predictions_7": ("43 published runs of 25 documents not used before beside their predictions", None),
    "predictions_8": ("57 published runs of 29 documents not used before beside their predictions", None),
    "predictions_9": ("50 published runs of 22 documents not used before beside their predictions", None),
    "predictions_10": ("47 published runs of 22 documents not used before beside their predictions", None),
    "predictions_11": ("47 published runs of 19 documents not used before beside their predictions", None),
    "predictions_12": ("42 published runs of 16 documents not used before beside their predictions", None),
    "predictions_13": ("50 published runs of 22 documents not used before beside their predictions", None),
    "predictions_14": ("57 published runs of 26 documents not used before beside their predictions", None),
    "predictions_15": ("58 published runs of 32 documents not used before beside their predictions", None),
    "predictions_16": ("57 published runs of 26 documents not used before beside their predictions", None),
    "predictions_17": ("36 published runs of 20 documents not used before beside their predictions", None),
    "predictions_18": ("36 published runs of 19 documents not used before beside their predictions", None),
    "predictions_19": ("19 published runs of 10 documents not used before beside their predictions", None),
    "predictions_20": ("24 published runs of 13 documents not used before beside their predictions", None),
    "predictions_21": ("38 published runs of 20 documents not used before beside their predictions", None),
}
"""What each set is, and its rows; None: those of the unseen set of that name."""


def row(found: Comparison) -> dict[str, object]:
    """One row of the file."""
    run, plan = found.run, found.run.plan
    return {
        "name": run.name,
        "cluster": run.cluster.name,
        "ranks": plan.num_ranks,
        "tp": plan.tp,
        "pp": plan.pp,
        "dp": plan.dp,
        "micro_batch": plan.micro_batch,
        "micro_batches": plan.num_mb,
        "measured_s": round(found.measured_s, 4),
        "predicted_s": round(found.prediction.step_s, 4),
        "fastest_s": round(found.prediction.fastest_s, 4),
        "slowest_s": round(found.prediction.slowest_s, 4),
        "error": round(found.error, 4),
        "predicted_mfu": round(found.prediction.mfu, 4),
        "parts_s": {name: round(seconds, 4) for name, seconds in found.prediction.parts_s.items()},
        "source": run.source,
        "assumed": run.assumed,
    }


def _row_or_refusal(run: PublishedRun) -> dict[str, object]:
    """The row; a run that the model refuses, with its reason."""
    try:
        return row(compare(run))
    except (ValueError, ZeroDivisionError) as error:
        return {"name": run.name, "refused": str(error)}


def _figures(rows: list[Comparison]) -> dict[str, object]:
    """How near a group of rows was predicted."""
    errors = [each.error for each in rows]
    inside = [each.prediction.fastest_s <= each.measured_s <= each.prediction.slowest_s for each in rows]
    return {
        "rows": len(rows),
        "median_error": round(statistics.median(map(abs, errors)), 4),
        "within_25_percent": round(sum(abs(error) <= 0.25 for error in errors) / len(rows), 4),
        "too_fast": sum(error < 0 for error in errors),
        "inside_range": round(sum(inside) / len(rows), 4),
    }


def _kind(name: str) -> str:
    """The source to which a row belongs, by its name; BigScience's rows begin with a size."""
    words = name.split("-")
    if name[0].isdigit():
        return "bloom"
    return (
        "-".join(words[:2])
        if words[0] in ("sc21", "titan") and words[1] in ("zero3", "ptd", "a100", "405b", "2025")
        else words[0]
    )


def _left_out(found: list[tuple[str, Comparison]]) -> dict[str, object]:
    """The range of all runs, and how many runs it holds when it is made without their own source."""
    ratios = [1 / (1 + each.error) for _, each in found]
    sources = [source for source, _ in found]

    def cuts_without(left_out: str | None) -> tuple[float, float]:
        others = [ratio for source, ratio in zip(sources, ratios, strict=True) if source != left_out]
        cuts = statistics.quantiles(others, n=20, method="inclusive")
        return cuts[0], cuts[-1]

    cuts = {source: cuts_without(source) for source in set(sources)}
    inside = sum(cuts[source][0] <= ratio <= cuts[source][1] for source, ratio in zip(sources, ratios, strict=True))
    return {
        "sources": len(cuts),
        "range": [round(cut, 4) for cut in cuts_without(None)],
        "median_ratio": round(statistics.median(ratios), 4),
        "inside_range": round(inside / len(ratios), 4),
    }


def _directions(rows: list[Comparison]) -> dict[str, int]:
    """Of pairs of rows with one model on one cluster whose measured rates differ by 5% or more: how many are ordered
    right."""
    pairs = [
        (_rate(a, a.measured_s) / _rate(b, b.measured_s), _rate(a, a.prediction.step_s) / _rate(b, b.prediction.step_s))
        for a, b in itertools.combinations(rows, 2)
        if a.run.model == b.run.model and a.run.cluster == b.run.cluster
    ]
    clear = [(measured, predicted) for measured, predicted in pairs if max(measured, 1 / measured) >= 1.05]
    return {"pairs": len(clear), "right": sum((measured > 1) == (predicted > 1) for measured, predicted in clear)}


def _stack(run: PublishedRun) -> tuple[Hashable, ...]:
    """A run's device, model and stack."""
    model, how = run.model, run.plan.how
    products = tuple((each.out, each.into) for each in model.layers[0].operations if isinstance(each, Product))
    return (
        run.cluster.device.name,
        len(model.layers),
        products,
        model.sample.num_units,
        how.fmt,
        how.is_fused,
        how.recompute,
    )


def _layout(run: PublishedRun) -> tuple[Hashable, ...]:
    """`_stack`, and how it is laid out on a rank."""
    plan = run.plan
    return (*_stack(run), plan.tp, plan.pp, plan.micro_batch, plan.shards_parameters)


def _among_documents(found: list[tuple[str, Comparison]], *, with_layout: bool) -> dict[str, object]:
    """How far runs of two documents that describe the same stack (and layout) differ, after what a prediction says of
    the rest: ranks, network and accumulation. A pair of documents counts once, by the median of its pairs of runs.

    `reachable`: the share of runs within 25% of a predictor that is right of the mean, where two documents are off by
    independent errors of one size, so that one is off by the square root of a half of what parts the two.
    """
    alike: dict[Hashable, list[tuple[str, float]]] = defaultdict(list)
    for document, each in found:
        alike[(_layout if with_layout else _stack)(each.run)].append((document, -math.log(1 + each.error)))
    of_documents: dict[tuple[str, str], list[float]] = defaultdict(list)
    for group in alike.values():
        for (a, error_a), (b, error_b) in itertools.combinations(group, 2):
            if a != b:
                of_documents[min(a, b), max(a, b)].append(abs(error_a - error_b))
    parted = [statistics.median(each) for each in of_documents.values()]
    near = math.log(1.25)
    return {
        "pairs_of_runs": sum(map(len, of_documents.values())),
        "pairs_of_documents": len(parted),
        "median_ratio": round(math.exp(statistics.median(parted)), 4),
        "within_25_percent_of_each_other": round(sum(each <= near for each in parted) / len(parted), 4),
        "reachable": round(sum(each / math.sqrt(2) <= near for each in parted) / len(parted), 4),
        "reachable_median_error": round(math.expm1(statistics.median(parted) / math.sqrt(2)), 4),
    }


def _rate(found: Comparison, step_s: float) -> float:
    """Samples a second of a rank."""
    return found.run.plan.global_batch / (found.run.plan.num_ranks * step_s)


_ORDINALS = (
    *("fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth"),
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
    "twentieth",
    "twenty-first",
    "twenty-second",
)
"""How docs/preflight.md counts the unseen sets."""


def main() -> None:
    """Predicts all rows and writes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--first-contact", choices=FIRST_CONTACTS, help="keep what is said of this set the first time")
    options = parser.parse_args()
    if options.first_contact is not None:
        what, runs = FIRST_CONTACTS[options.first_contact]
        refused: dict[str, str] = {}
        met = unseen_runs(options.first_contact, refused) if runs is None else runs()
        rows = [_row_or_refusal(run) for run in met]
        rows += [{"name": name, "refused": why} for name, why in refused.items()]
        keep_first_contact(options.first_contact, what=what, measures=MEASURES, rows=rows)
        return
    results = Results(
        "predictions",
        what="every published run beside its prediction",
        measures=MEASURES,
        is_fresh=options.fresh,
        folder=options.into,
    )
    found = {name: compare(run) for name, run in published_runs().items()}
    sets = {"later": [*later_runs()], "third": [*third_runs()]}
    sets |= {group: [*unseen_runs(name)] for group, name in zip(_ORDINALS, LEFT_OUT, strict=True)}
    found |= {run.name: compare(run) for group in _ORDINALS for run in sets[group]}
    for name, each in found.items():
        results.add(name, row(each))
    groups = {group: [run.name for run in runs] for group, runs in sets.items()}
    entered_later = {name for names in groups.values() for name in names}
    groups["earlier"] = [name for name in found if name not in entered_later]
    groups["all"] = list(found)
    kinds = {name: f"{group}: {_kind(name)}" for group in (*sets, "earlier") for name in groups[group]}
    groups |= {kind: [name for name in kinds if kinds[name] == kind] for kind in sorted(set(kinds.values()))}
    summary = {group: _figures([found[name] for name in names]) for group, names in groups.items()}
    ratio = {"measured": 1.28, "predicted": round(ratio_of_schedules(found), 4)}
    sourced = [(kinds[name], each) for name, each in found.items()]
    results.summarise(
        {
            **summary,
            "one_source_left_out": _left_out(sourced),
            "documents_of_one_stack": _among_documents(sourced, with_layout=False),
            "documents_of_one_layout": _among_documents(sourced, with_layout=True),
            "directions": _directions(list(found.values())),
            "ratio_405b": ratio,
        }
    )


if __name__ == "__main__":
    main()

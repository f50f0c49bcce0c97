"""Every layout of every family, and every schedule with every ZeRO stage, against one process; docs/measured/grid.json.

    .venv/bin/python tools/campaign_grid.py [--only WORD ...] [--fresh]

The points of `tests/ranks/test_layout_grid.py` and `test_swin.py` train 20 steps; each schedule of each family at each
ZeRO stage, with recomputation at one of them, 3. A row keeps how far first loss, all losses, the norms and the
gradients were from those of one plain process, relative. The exit code is 1 when one is beyond the tests' bounds.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ.setdefault("EMBERWARD_TEST_PATIENCE", "10")  # read where the ranks of the pool start

from measured import Results, add_options  # noqa: E402
from ranks import test_layout_grid, test_swin  # type: ignore[import-not-found]  # noqa: E402
from ranks.cases import engine_run, plain_run  # type: ignore[import-not-found]  # noqa: E402
from ranks.distance import beyond, distance  # type: ignore[import-not-found]  # noqa: E402
from ranks.pool import RankPool  # type: ignore[import-not-found]  # noqa: E402
from ranks.swin_cases import digit_manifests, swin_plain, swin_run  # type: ignore[import-not-found]  # noqa: E402

from emberward.plan import SCHEDULES  # noqa: E402

FAMILIES: dict[str, dict[str, Any]] = {
    "bloom": {},
    "llama": {"family": "llama", "kv_heads": 2},
    "roberta": {"family": "roberta", "rate": 0.05},
    "swin": {},
}
STEPS_OF_A_SCHEDULE = 3


class Point(NamedTuple):
    """One run of ranks: its family, its layout and how many steps it is followed."""

    name: str
    family: str
    layout: dict[str, Any]
    steps: int


def points() -> Iterator[Point]:
    """All of them."""
    for name, layout in test_layout_grid.GRID.items():
        family = layout.get("family", "bloom")
        yield Point(f"{family}: {name.removeprefix(f'{family} ')}", family, layout, test_layout_grid.STEPS)
    for name, layout in test_swin.GRID.items():
        yield Point(f"swin: {name}", "swin", layout, test_swin.STEPS)
    for family, sizes in FAMILIES.items():
        for schedule in SCHEDULES:
            chunks = {"gpipe": 1, "1f1b": 1, "zb_h1": 1}.get(schedule, 2)
            for zero in range(4):
                layout = {
                    "dp": 2, "pp": 2, "accumulation": 8, "zero": zero, "schedule": schedule, "stages_per_rank": chunks,
                    "recompute": zero == 1, **sizes, **({"micro_batch": 2} if family == "swin" else {}),
                }  # fmt: skip
                yield Point(f"{family}: {schedule} zero{zero}", family, layout, STEPS_OF_A_SCHEDULE)


class Grid:
    """Runs points, and keeps the plain runs they are held against."""

    def __init__(self, pool: RankPool, manifest: str) -> None:
        self._pool = pool
        self._manifest = manifest
        self._plain: dict[tuple[Any, ...], dict[str, Any]] = {}

    def run(self, point: Point) -> dict[str, float]:
        """How far the ranks of a point were from one process."""
        size = test_swin.num_ranks(point.layout)
        if point.family == "swin":
            answers = self._pool.run(
                swin_run, size, model="small", manifest=self._manifest, steps=point.steps, **point.layout
            )
            batch = point.layout["micro_batch"] * point.layout.get("accumulation", 1) * point.layout.get("dp", 1)
            expected = self._swin(batch, point.steps, point.layout.get("rates", True))
        else:
            answers = self._pool.run(engine_run, size, steps=point.steps, keep_grads_of=0, **point.layout)
            keys = {name: point.layout[name] for name in test_layout_grid.MODEL_KEYS if name in point.layout}
            expected = self._decoder(point.steps, keys)
        found: dict[str, float] = distance(answers, expected)
        return found

    def _decoder(self, steps: int, keys: dict[str, Any]) -> dict[str, Any]:
        key = (steps, *keys.items())
        if key not in self._plain:
            self._plain[key] = plain_run(steps=steps, keep_grads_of=0, **keys)
        return self._plain[key]

    def _swin(self, global_batch: int, steps: int, rates: bool) -> dict[str, Any]:
        key = ("swin", global_batch, steps, rates)
        if key not in self._plain:
            self._plain[key] = swin_plain(
                model="small", manifest=self._manifest, steps=steps, global_batch=global_batch, rates=rates
            )
        return self._plain[key]


def main() -> int:
    """1 when a point is beyond the bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="points whose names hold one of these words")
    add_options(parser)
    asked = parser.parse_args()
    results = Results(
        "grid",
        what="every layout of every family, and every schedule with every ZeRO stage, against one process",
        measures=["src/emberward/engine", "src/emberward/families", "src/emberward/plan"],
        settings={"steps_of_a_schedule": STEPS_OF_A_SCHEDULE},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        pool = RankPool(8, Path(place))
        grid = Grid(pool, digit_manifests(Path(place))["small"])
        for point in points():
            if asked.only and not any(word in point.name for word in asked.only):
                continue
            found = grid.run(point)
            is_exact = not beyond(found)
            results.add(point.name, {"family": point.family, "steps": point.steps, "is_exact": is_exact, **found})
            wrong += [] if is_exact else [point.name]
            sys.stdout.write(f"{point.name}: {'exact' if is_exact else 'NOT EXACT'} {found}\n")
            sys.stdout.flush()
        pool.close()
    rows = results.attempts
    results.summarise(
        {
            "points": len(rows),
            "exact": sum(row["is_exact"] for row in rows),
            "by_family": {family: sum(row["family"] == family for row in rows) for family in FAMILIES},
            **{name: max(row[name] for row in rows) for name in ("first_loss", "losses", "gradient")},
        }
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

"""Every schedule of every family at every ZeRO stage: the dry run beside the live run, docs/measured/dry_runs.json.

    .venv/bin/python tools/campaign_dry_runs.py [--only WORD ...] [--fresh]

The points are those of schedules in `campaign_grid.py`, on four real ranks over gloo. Each passes through every phase
of a run (training, evaluation, saves, the stop) live and dry. A row tells whether each rank's events and calls are the
same, event for event, how many they are, and whether the judge proves the whole. The exit code is 1 where one is not.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ.setdefault("EMBERWARD_TEST_PATIENCE", "10")  # read where the ranks of the pool start

from campaign_grid import STEPS_OF_A_SCHEDULE, points  # noqa: E402
from measured import Results, add_options  # noqa: E402
from ranks.dry_cases import both  # type: ignore[import-not-found]  # noqa: E402
from ranks.pool import RankPool  # type: ignore[import-not-found]  # noqa: E402

from emberward.events import Observer, Trace  # noqa: E402
from emberward.match import check  # noqa: E402
from emberward.sources import first_difference  # noqa: E402

SIZE = 4


def main() -> int:
    """1 when a dry run is not the live run, or is not proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="points whose names hold one of these words")
    add_options(parser)
    asked = parser.parse_args()
    results = Results(
        "dry_runs",
        what="every schedule of every family at every ZeRO stage: the dry run beside the live run, event for event",
        measures=["src/emberward/engine", "src/emberward/families", "src/emberward/plan", "src/emberward/rank"],
        settings={"ranks": SIZE},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    with tempfile.TemporaryDirectory() as place:
        pool = RankPool(SIZE, Path(place))
        for point in (each for each in points() if each.steps == STEPS_OF_A_SCHEDULE):
            if asked.only and not any(word in point.name for word in asked.only):
                continue
            layout = point.layout | {"family": point.family}
            answers = pool.run(both, SIZE, folder=str(Path(place) / "run"), **layout)
            differences = [first_difference(answer["dry"], answer["live"]) for answer in answers]
            dry = Trace(
                world_size=SIZE,
                events={rank: answer["dry"] for rank, answer in enumerate(answers)},
                observer=Observer.DRY_RUN,
            )
            row = {
                "family": point.family,
                "events": sum(len(answer["live"]) for answer in answers),
                "is_same": not any(differences)
                and all(answer["dry program"] == answer["live program"] for answer in answers),
                "is_proved": check(dry).is_safe,
            }
            results.add(point.name, row)
            sys.stdout.write(f"{point.name}: {row} {[str(each) for each in differences if each is not None][:1]}\n")
            sys.stdout.flush()
        pool.close()
    rows = results.attempts
    results.summarise(
        {
            "points": len(rows),
            "same": sum(row["is_same"] for row in rows),
            "proved": sum(row["is_proved"] for row in rows),
            "events": sum(row["events"] for row in rows),
        }
    )
    return int(not all(row["is_same"] and row["is_proved"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""Changes the judging rooms in small ways and runs their tests: a mutant that survives shows a test that is missing.

    python tools/campaign_mutants.py [--sample 60] [--seed 1] [ROOM ...]

A seeded sample of cosmic-ray's mutants of each room: comparisons, numbers, conditions and signs. Each is applied to a
copy of the tree and judged by the tests of that room alone, so that a survivor may still fall to another room's tests.
Results go into docs/measured/mutants.json with every survivor's diff. Needs ``pip install cosmic-ray``.
"""

import argparse
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from measured import ROOT, Results, add_options

ROOMS = {
    "match": ("src/emberward/match", ("tests/unit/match",)),
    "health": ("src/emberward/health", ("tests/unit/health",)),
    "dumps": ("src/emberward/sources/dumps", ("tests/unit/sources", "-k", "dumps")),
    # Most of what it concludes is tested where dumps are read.
    "diagnose": ("src/emberward/diagnose", ("tests/unit/diagnose", "tests/unit/sources", "-k", "dumps or diagnose")),
    "live": ("src/emberward/diagnose/live", ("tests/unit/sources", "-k", "live or stragglers")),
}
OPERATORS = (
    "ReplaceComparisonOperator", "NumberReplacer", "AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_Div",
    "ReplaceBinaryOperator_Div_Mul",
)  # fmt: skip
"""Without those that change the ``|`` of annotations, which no test can see."""
LIMIT_S = 120.0
CONFIG = """
[cosmic-ray]
module-path = "{module}"
timeout = {limit_s}
excluded-modules = []
test-command = "{python} -m pytest -x -q -p no:cacheprovider {tests}"
[cosmic-ray.distributor]
name = "local"
"""


def copy_of_tree(place: Path) -> Path:
    """A copy of what the tests of a room need."""
    tree = place / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "incident_programs", "held_out")
    for name in ("src", "tests", "tools", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def keep_sample(session: Path, num: int, rng: random.Random) -> int:
    """Removes all but a sample of the session's mutants; how many there were."""
    with sqlite3.connect(session) as base:
        rows = base.execute("select job_id, operator_name from mutation_specs order by module_path, start_pos_row,"
                            " start_pos_col, operator_name, occurrence").fetchall()  # fmt: skip
        usable = [job for job, name in rows if name.partition("/")[2].startswith(OPERATORS)]
        kept = set(rng.sample(usable, min(num, len(usable))))
        for job, _ in rows:
            if job not in kept:
                base.execute("delete from mutation_specs where job_id = ?", (job,))
                base.execute("delete from work_items where job_id = ?", (job,))
    return len(usable)


def run_room(room: str, num: int, seed: int, results: Results) -> None:
    """Adds each mutant of the room's sample with what became of it."""
    module, tests = ROOMS[room]
    with tempfile.TemporaryDirectory(prefix="emberward-mutants-") as place:
        tree, session, config = copy_of_tree(Path(place)), Path(place) / "session.sqlite", Path(place) / "config.toml"
        words = " ".join(f"'{word}'" if " " in word else word for word in tests)
        config.write_text(CONFIG.format(module=module, limit_s=LIMIT_S, python=sys.executable, tests=words))
        command = [str(Path(sys.executable).with_name("cosmic-ray"))]
        environment = {"PYTHONPATH": str(tree / "src"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "init", str(config), str(session)], cwd=tree, env=environment, check=True)
        num_usable = keep_sample(session, num, random.Random(seed))
        subprocess.run([*command, "exec", str(config), str(session)], cwd=tree, env=environment, check=True)
        query = (
            "select s.module_path, s.operator_name, s.start_pos_row, s.definition_name, r.test_outcome, r.diff"
            " from mutation_specs s join work_results r on r.job_id = s.job_id"
        )
        with sqlite3.connect(session) as base:
            for path, operator, row, function, outcome, diff in base.execute(query):
                key = f"{path}:{row} {function} {operator.partition('/')[2]}"
                survived = outcome == "SURVIVED"
                results.add(
                    key, {"room": room, "outcome": outcome, "of": num_usable, "diff": diff if survived else None}
                )


def main() -> int:
    """Always 0: a survivor is a place to look, not a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "mutants",
        what="small changes of the judging rooms: killed by the room's own tests, or survived",
        measures=[module for module, _ in ROOMS.values()],
        settings={"sample": options.sample, "seed": options.seed},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for room in options.rooms:
        run_room(room, options.sample, options.seed, results)
    counts = Counter((row["room"], row["outcome"]) for row in results.latest().values())
    results.summarise({room: {o: n for (r, o), n in sorted(counts.items()) if r == room} for room in ROOMS})
    return 0


if __name__ == "__main__":
    sys.exit(main())

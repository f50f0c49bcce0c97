"""What `emberward profile` costs a job: the job plain, recorded (`emberward run`) and profiled, two and two in turns.

    python benchmarks/profile_jobs.py [--pairs 6] [--steps 500]

Both jobs of a pair run at once and stand still in turns of half a second (`tools/in_turns.py`), so that both meet the
same noise; the first starts the pair in every other one. Counted are the steps after the observed ones, which the
profile samples to the job's end: the mean step by the clock of rank 0. Two ranks on two processors leave none for the
thread that looks, as one rank does. Result: docs/measured/profile_jobs.json.
"""

import argparse
import itertools
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from in_turns import steps_in_turns
from measured import Results, add_options

HERE = Path(__file__).resolve().parent
PROGRAM, TOLD = HERE / "profile_program.py", HERE.parent / "tools" / "told_steps.py"
MEASURES = (
    "src/emberward/sources", "benchmarks/profile_jobs.py", "benchmarks/profile_program.py", "tools/in_turns.py",
)  # fmt: skip
FIRST_SAMPLED = 14
"""Steps that both have made before their turns begin: the warm-up and the observed ones are over."""
LIMIT_S = 300.0
UNDER = {
    "recorded": ["run", "--"],
    "profiled": ["profile", "--steps", "1000", "--"],
}


def command(file: Path, *, under: str | None, ranks: int, steps: int, port: int) -> list[str]:
    """The job that writes its steps' ends to `file`."""
    launch = [sys.executable]
    if ranks > 1:
        launch += ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}", f"--master-port={port}"]
    job = [*launch, os.fspath(TOLD), os.fspath(file), os.fspath(PROGRAM), str(steps)]
    before = [] if under is None else [sys.executable, "-m", "emberward", *UNDER[under]]
    return ["env", "OMP_NUM_THREADS=1", *before, *job]


def pair(folder: Path, under: str, *, ranks: int, steps: int, is_first: bool) -> float | None:
    """The mean step under `under` over the plain one's; None for a pair that failed."""
    kinds = (under, None) if is_first else (None, under)
    sides = [
        (folder, lambda file, kind=kind, port=port: command(file, under=kind, ranks=ranks, steps=steps, port=port))
        for kind, port in zip(kinds, (29731, 29741), strict=True)
    ]
    found = dict(zip(kinds, steps_in_turns(sides, limit_s=LIMIT_S, first_steps=FIRST_SAMPLED), strict=True))
    with_it, plain = found[under], found[None]
    return None if with_it is None or plain is None else with_it / plain


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=500)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "profile_jobs",
        what="steps of a job under `emberward run` and `emberward profile` over those of the plain job, in turns",
        measures=MEASURES,
        settings={"pairs": options.pairs, "steps": options.steps},
        is_fresh=options.fresh,
        folder=options.into,
    )
    summary = {}
    for ranks, under in itertools.product((1, 2), UNDER):
        with tempfile.TemporaryDirectory() as name:
            measured = [
                pair(Path(name), under, ranks=ranks, steps=options.steps, is_first=index % 2 == 0)
                for index in range(options.pairs)
            ]
        ratios = sorted(each for each in measured if each is not None)
        found = {"pairs": ratios, "failed": len(measured) - len(ratios)}
        if ratios:
            found["median"] = statistics.median(ratios)
        results.add(f"{under}, {ranks} ranks", found)
        summary[f"{under}, {ranks} ranks"] = found.get("median")
        print(f"{under}, {ranks} ranks:", found, flush=True)
    results.summarise(summary)


if __name__ == "__main__":
    main()

"""What the newest run of a name says of itself, read from its folder."""

from pathlib import Path

from emberward.report import RunFolder, read_json, read_lines, read_outcome
from emberward.slurm._pulse import RunFacts


def read_facts(place: Path) -> RunFacts:
    """The newest run in `place`, ``runs/NAME``, by its configuration's time; all None without any. Reads five files."""
    configs = sorted(place.glob("*/config.resolved.yaml"), key=lambda path: path.stat().st_mtime)
    if not configs:
        return RunFacts()
    folder = RunFolder(path=configs[-1].parent)
    said = read_json(folder.progress) or {}
    step, longest_s = None, 0.0
    for line in read_lines(folder.metrics):
        step = line.get("step", step)
        if isinstance(line.get("step_s"), int | float):
            longest_s = max(longest_s, line["step_s"])
    failure = next((read_json(path) for path in sorted(folder.failures.glob("rank*.json"))), None)
    said_unix = said.get("time_unix")
    return RunFacts(
        id=folder.id,
        step=step if isinstance(step, int) else None,
        steps=said.get("steps"),
        phase=said.get("phase"),
        said_unix=said_unix if isinstance(said_unix, int | float) else None,
        longest_step_s=longest_s,
        outcome=(read_json(folder.summary) or {}).get("outcome") or read_outcome(folder),
        failure=None if failure is None else f"rank {failure.get('rank')}: {failure.get('type')}",
    )

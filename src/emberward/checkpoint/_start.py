"""Whether a new run can start from a checkpoint: found, of our form, with the tensors of the model in their shapes."""

from collections.abc import Mapping
from pathlib import Path

from emberward.checkpoint._describe import is_checkpoint
from emberward.checkpoint._foreign._source import MOMENTS, model_name, moment_name
from emberward.checkpoint._format import DType, Manifest
from emberward.checkpoint._problems import near_misses
from emberward.checkpoint._reader import read_manifest
from emberward.checkpoint._root import latest
from emberward.findings import ConfigError

_MAX_LISTED = 4
_WHERE = "start.checkpoint"


def find_start(place: Path) -> Path:
    """The save at `place`: itself, or the newest of a folder of saves or of a run. Raises ConfigError K121."""
    if is_checkpoint(place) and place.is_dir():
        return place
    for root in (place, place / "checkpoints"):
        found = latest(root) if root.is_dir() else None
        if found is not None:
            return found
    is_foreign = place.is_dir() and any(place.iterdir())
    raise ConfigError(
        "there is no save to start from",
        code="K121",
        where=f"{_WHERE}={place}",
        expected="a save, a folder of saves, or a run",
        found="no such folder" if not place.is_dir() else "a folder with none",
        next=f"emberward checkpoint import {place} saves      (then start.checkpoint=saves)" if is_foreign else None,
    )


def require_start(place: Path, shapes: Mapping[str, tuple[int, ...]], *, with_moments: bool) -> Path:
    """The save at `place`, in which every tensor of the model lies in its shape and in 32-bit floats.

    `shapes` are the model's, by name; `with_moments` asks for both moments of each. Reads a manifest, no tensor. Raises
    ConfigError K121 with the first that does not fit and how many others do not, K101 for a damaged manifest.
    """
    save = find_start(place)
    manifest = read_manifest(save)
    wanted = {model_name(name): shape for name, shape in shapes.items()}
    if with_moments:
        wanted |= {moment_name(moment, name): shape for moment in MOMENTS for name, shape in shapes.items()}
    problems = [problem for name, shape in wanted.items() if (problem := _problem(manifest, name, shape)) is not None]
    if problems:
        raise _unfit(save, manifest, problems)
    return save


def _problem(manifest: Manifest, name: str, shape: tuple[int, ...]) -> tuple[str, str, str] | None:
    """Name, expected and found of a tensor that does not fit."""
    entry = manifest.tensors.get(name)
    if entry is None:
        return name, "in the save", "no such tensor"
    if entry.shape != shape:
        return name, f"shape {shape}", f"shape {entry.shape}"
    if entry.dtype is not DType.F32:
        return name, "F32, as the run keeps it", entry.dtype.value
    return None


def _unfit(save: Path, manifest: Manifest, problems: list[tuple[str, str, str]]) -> ConfigError:
    name, expected, found = problems[0]
    others = [problem[0] for problem in problems[1:]]
    listed = ", ".join(others[:_MAX_LISTED])
    rest = f" and {len(others) - _MAX_LISTED} more" if others[_MAX_LISTED:] else ""
    missing = found == "no such tensor"
    advice = f"emberward checkpoint show {save}"
    if missing and name.startswith("optim/"):
        advice = "start.take=weights      (the save has no such moments)"
    elif missing and (hint := near_misses(name, manifest.tensors)) is not None:
        advice = f"{hint}      {advice}"
    elif found in {dtype.value for dtype in DType}:
        advice = f"emberward checkpoint reshape {save} saves_f32 --ranks {manifest.world_size} --dtype F32"
    elif not missing:
        advice = "set the recipe's model.* to the checkpoint's sizes      " + advice
    return ConfigError(
        f"tensor {name} does not fit the model" + (f"; nor do {listed}{rest}" if others else ""),
        code="K121",
        where=f"{_WHERE}={save}",
        expected=expected,
        found=found,
        next=advice,
    )

"""A run as a person names it. Every verb that takes a run finds it here. No torch, and nothing that is slow to load.

[Note: what names a run]
A run's folder; a bundle of ``report --bundle``, unpacked for as long as the process lives; a folder of runs (the one
that was started last); a checkpoint of a run, or its ``checkpoints`` folder; a name or an id under the folder of runs:
``bloom_tiny``, ``bloom_tiny/20261122-101500-1a2b``, ``20261122-101500-1a2b``.
What exists as a path comes before what is called so under the folder of runs.
"""

import atexit
import tempfile
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from emberward import checkpoint
from emberward.findings import ConfigError

DEFAULT_RUNS = Path("runs")
RunsOption = Annotated[Path, typer.Option("--runs", help="Where run folders lie.")]
RunArgument = Annotated[
    Path, typer.Argument(help="A run: its name or folder, a bundle, a folder of runs, or a checkpoint of it.")
]

_MARKERS = ("config.resolved.yaml", "command.json")
"""One of them lies in every run's folder: the recipe of ``train``, or what ``run`` started."""
_MAX_DEPTH = 3
"""How deep below a folder runs are searched: ``FOLDER/runs/NAME/ID``."""


def places_of(word: Path, runs: Path) -> Iterator[Path]:
    """What exists under the word: the path itself, then a name or an id under `runs`."""
    if word.exists():
        yield word
    if not word.is_absolute() and ".." not in word.parts and (runs / word).exists():
        yield runs / word
    if len(word.parts) == 1:
        yield from (path for path in sorted(runs.glob("*/*")) if path.name == word.name)


def find_run(word: Path, runs: Path = DEFAULT_RUNS) -> Path | None:
    """The folder of the run that `word` names, None when it names none. See [Note: what names a run]. Reads folders."""
    return next((run for place in places_of(word, runs) if (run := _run_at(place)) is not None), None)


def _run_at(place: Path) -> Path | None:
    if is_run(place):
        return place
    if place.is_file():
        return _unpacked(place)
    inside = place.resolve()
    if checkpoint.is_checkpoint(inside):
        inside = inside.parent
    if inside.name == "checkpoints" and is_run(inside.parent):
        return inside.parent
    return newest_run(place)


def _unpacked(place: Path) -> Path | None:
    """The folder of the run in a bundle; None for a file that is none. Raises ConfigError C107 for a damaged one."""
    # Few verbs are ever given a bundle, and reading it loads the readers of dumps.
    from emberward.report import unpack_bundle
    from emberward.sources.dumps import UnreadableError

    into = tempfile.TemporaryDirectory(prefix="emberward-bundle-")
    atexit.register(into.cleanup)
    try:
        return unpack_bundle(place, Path(into.name))
    except UnreadableError as error:
        raise ConfigError(
            "this bundle cannot be read",
            code="C107",
            where=str(place),
            expected="a bundle as `emberward report RUN --bundle FILE` writes it",
            found=str(error),
            next=f"tar tzf {place}      (what is whole of it)",
        ) from error


def is_run(folder: Path) -> bool:
    """Whether the folder is a run's own."""
    return any((folder / marker).is_file() for marker in _MARKERS)


def newest_run(folder: Path) -> Path | None:
    """The run below `folder` that was started last, by its configuration's time; None without any."""
    found = [
        path for depth in range(1, _MAX_DEPTH + 1) for marker in _MARKERS for path in folder.glob("*/" * depth + marker)
    ]
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


def require_run(word: Path, runs: Path, *, verb: str) -> Path:
    """The absolute folder of the run that `word` names. Raises ConfigError C107 with the nearest names for `verb`."""
    found = find_run(word, runs)
    if found is not None:
        return found.absolute()
    names = near_names(word, runs)
    missing = "a file or folder without a run" if word.exists() else f"no such path, nor one in {runs}/"
    raise ConfigError(
        "this is no run's folder",
        code="C107",
        where=str(word),
        expected="a run's name, its folder, a bundle of it, a folder of runs, or a checkpoint of it",
        found=missing,
        next=f"emberward {verb} {names[0]}" if names else "emberward train bloom_tiny      (makes a run)",
    )


def near_names(word: Path, runs: Path) -> list[str]:
    """Names of runs under `runs` that the word may have meant, the nearest first; every name when none is near."""
    names = sorted(path.name for path in runs.glob("*") if newest_run(path) is not None)
    near = get_close_matches(word.name, names, n=3, cutoff=0.6)
    return [str(runs / name) for name in near or names]

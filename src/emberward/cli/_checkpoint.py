"""``emberward checkpoint``: look at saves, prove them, hand them on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from emberward import checkpoint
from emberward.cli._console import Screen
from emberward.cli._guard import JsonOption, guarded
from emberward.findings import ConfigError, exit_code_of

checkpoint_app = typer.Typer(help="Look at saves, prove them, hand them on.", no_args_is_help=True)

PathArgument = Annotated[Path, typer.Argument(help="A save, or the run (the newest save of it).")]


def find_save(path: Path) -> Path:
    """The save that `path` is, or the newest whole one below it. Raises ConfigError K102 when there is none."""
    if checkpoint.is_checkpoint(path):
        return path
    for shelf in (path, path / "checkpoints"):
        found = checkpoint.latest(shelf) if shelf.is_dir() else None
        if found is not None:
            return found
    raise ConfigError(
        "there is no save here",
        code="K102",
        where=str(path),
        expected="a step-… folder, a checkpoints folder or a run's folder",
        found="none" if path.exists() else "no such folder",
    )


def _run(verb: str, path: Path, is_json: bool) -> None:
    verbs = {"ls": _ls, "show": _show, "verify": _verify}
    guarded(lambda screen: verbs[verb](path, screen), is_json=is_json)


@checkpoint_app.command("ls")
def ls_verb(path: PathArgument, is_json: JsonOption = False) -> None:
    """The saves of a run."""
    _run("ls", path, is_json)


@checkpoint_app.command("show")
def show_verb(path: PathArgument, is_json: JsonOption = False) -> None:
    """The tensors of a save: type, shape, pieces, digest."""
    _run("show", path, is_json)


@checkpoint_app.command("verify")
def verify_verb(path: PathArgument, is_json: JsonOption = False) -> None:
    """Reads every byte of a save and proves it by its checksums."""
    _run("verify", path, is_json)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[str]:
    from emberward.report import table  # imported here for the time that it saves the other verbs

    return table(titles, rows)


def _ls(path: Path, screen: Screen) -> int:
    shelf = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    saves = checkpoint.list_checkpoints(shelf)
    rows = [
        [
            str(save.step),
            "?" if save.num_bytes is None else f"{save.num_bytes / 1e6:.1f} MB",
            "?" if save.world_size is None else str(save.world_size),
            "latest" if save.is_latest else "",
            save.problem or str(save.path),
        ]
        for save in saves
    ]
    for line in _table(["step", "size", "ranks", "", "save"], rows):
        screen.say(line)
    screen.document([], saves=[save.to_json() for save in saves])
    return 0


def _show(path: Path, screen: Screen) -> int:
    found = checkpoint.describe(find_save(path))
    screen.say(
        f"{found.path}: step {found.step}, {found.world_size} ranks, {found.num_bytes / 1e6:.1f} MB, "
        f"{len(found.tensors)} tensors of {found.num_elements:,} elements"
    )
    rows = []
    for tensor in found.tensors:
        data = tensor.to_json()
        rows.append([data["dtype"], " x ".join(map(str, data["shape"])), data["digest"], data["name"]])
    for line in _table(["type", "shape", "digest", "name"], rows):
        screen.say(line)
    screen.document([], **found.to_json())
    return 0


def _verify(path: Path, screen: Screen) -> int:
    save = find_save(path)
    findings = checkpoint.verify(save)
    for finding in findings:
        screen.say(f"{finding.code} {finding.message}")
    if not findings:
        screen.say(f"{save}: every byte is as it was saved")
    screen.document(findings, save=str(save))
    return exit_code_of(findings)

"""``emberward checkpoint``: look at saves, prove them, hand them on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from emberward import checkpoint
from emberward.checkpoint import Latest
from emberward.cli._console import Screen
from emberward.cli._guard import JsonOption, guarded
from emberward.findings import ConfigError, EmberwardError, Finding, exit_code_of

checkpoint_app = typer.Typer(help="Look at saves, prove them, hand them on.", no_args_is_help=True)

PathArgument = Annotated[Path, typer.Argument(help="A save, or the run (the newest save of it).")]


def find_save(path: Path) -> Path:
    """The save that `path` is, or the newest one below it.

    Raises ConfigError K102 when there is none, and K101 when the newest is not whole by names and sizes: an older one
    is taken only when a person names it.
    """
    if checkpoint.is_checkpoint(path) and path.is_dir():
        return path
    found = _newest(path)
    if found is None:
        raise _no_save(path)
    if found.path is None or found.damaged is not None:
        raise _newest_damaged(found)
    return found.path


def _newest(path: Path) -> Latest | None:
    """What the folder of saves, or the run's folder, `path` has to go on from; None when it has no save at all."""
    for shelf in (path, path / "checkpoints"):
        found = checkpoint.find_latest(shelf) if shelf.is_dir() else None
        if found is not None and (found.path is not None or found.findings):
            return found
    return None


def _no_save(path: Path) -> ConfigError:
    return ConfigError(
        "there is no save here",
        code="K102",
        where=str(path),
        expected="a step-… folder, a checkpoints folder or a run's folder",
        found="none" if path.exists() else "no such folder",
        next=f"ls {path if path.is_dir() else path.parent}",
    )


def _newest_damaged(found: Latest) -> EmberwardError:
    finding = found.findings[0]
    return EmberwardError(
        "the newest save is damaged",
        code="K101",
        where=None if found.damaged is None else str(found.damaged),
        expected="a whole save",
        found=finding.message,
        next=finding.next if found.path is None else f"name the one that is meant, such as {found.path}",
        cause=finding.cause,
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
    if not saves and not (shelf.name == "checkpoints" or (path / "config.resolved.yaml").is_file()):
        raise _no_save(path)
    rows = [
        [
            str(save.step),
            "?" if save.num_bytes is None else f"{save.num_bytes / 1e6:.1f} MB",
            "?" if save.world_size is None else str(save.world_size),
            ", ".join(("latest",) * save.is_latest + save.names),
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
    ranks = f"{found.world_size} rank{'s' if found.world_size != 1 else ''}"
    screen.say(
        f"{found.path}: step {found.step}, {ranks}, {found.num_bytes / 1e6:.1f} MB, "
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


def _line(finding: Finding) -> str:
    """What is wrong, where (file, tensor, bytes), and what was expected against what was found, in one line."""
    where = f": {finding.site}" if finding.site else ""
    facts = f" ({', '.join(finding.evidence)})" if finding.evidence else ""
    return f"{finding.code} {finding.message}{where}{facts}"


def _verify(path: Path, screen: Screen) -> int:
    passed_over: tuple[Finding, ...] = ()
    save = path
    if not (checkpoint.is_checkpoint(path) and path.is_dir()):
        found = _newest(path)
        if found is None:
            raise _no_save(path)
        chosen = found.damaged or found.path
        if chosen is None:
            raise _newest_damaged(found)
        save, passed_over = chosen, () if found.damaged is not None else found.findings
    damage = checkpoint.verify(save)
    findings = (*passed_over, *damage)
    for finding in findings:
        screen.say(_line(finding))
    if damage:
        screen.say(f"next  {damage[0].next}")
    else:
        screen.say(f"{save}: every byte is as it was saved")
    screen.document(findings, save=str(save))
    return exit_code_of(findings)

"""``emberward checkpoint``: look at saves, prove them, hand them on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from emberward import checkpoint
from emberward.checkpoint import Latest
from emberward.cli._console import Screen, Told
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption, find_run, near_names, places_of
from emberward.findings import ConfigError, EmberwardError, Finding, exit_code_of

checkpoint_app = typer.Typer(help="Look at saves, prove them, hand them on.", no_args_is_help=True)

PathArgument = Annotated[Path, typer.Argument(help="A save, or a run (the newest save of it): its name or a folder.")]


def find_save(word: Path, runs: Path = DEFAULT_RUNS) -> Path:
    """The save that `word` is, or the newest one of the run or the folder of saves that it names.

    Raises ConfigError K102 when there is none, and K101 when the newest is not whole by names and sizes: an older one
    is taken only when a person names it.
    """
    found = _find(word, runs)
    if isinstance(found, Path):
        return found
    if found.path is None or found.damaged is not None:
        raise _newest_damaged(found)
    return found.path


def find_source(word: Path, runs: Path) -> Path:
    """What a conversion reads: the save that `word` names, else `word` itself, as another program's folder."""
    if word.exists() and checkpoint.is_foreign(word):
        return word
    try:
        return find_save(word, runs)
    except ConfigError:
        return word


def _find(word: Path, runs: Path) -> Path | Latest:
    """The save that `word` is, else what its folder of saves has to go on from. Raises ConfigError K102."""
    for place in places_of(word, runs):
        if checkpoint.is_checkpoint(place) and place.is_dir():
            return place
        found = _newest(place)
        if found is not None:
            return found
    run = find_run(word, runs)
    found = None if run is None else _newest(run)
    if found is None:
        raise _no_save(word, run, runs)
    return found


def _newest(path: Path) -> Latest | None:
    """What the folder of saves, or the run's folder, `path` has to go on from; None when it has no save at all."""
    for root in (path, path / "checkpoints"):
        found = checkpoint.find_latest(root) if root.is_dir() else None
        if found is not None and (found.path is not None or found.findings):
            return found
    return None


def _no_save(word: Path, run: Path | None, runs: Path) -> ConfigError:
    names = near_names(word, runs)
    if run is not None:
        found, advice = f"run {run} without a save", f"emberward report {run}"
    else:
        found = "none" if word.exists() else f"no such folder, nor in {runs}/"
        advice = f"emberward checkpoint ls {names[0]}" if names else f"ls {word if word.is_dir() else word.parent}"
    return ConfigError(
        "there is no save here",
        code="K102",
        where=str(word),
        expected="a step-… folder, a checkpoints folder, a run's folder or its name",
        found=found,
        next=advice,
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


def _run(verb: str, path: Path, runs: Path, is_json: bool) -> None:
    verbs = {"ls": _ls, "show": _show, "verify": _verify}
    guarded(lambda screen: verbs[verb](path, runs, screen), is_json=is_json)


@checkpoint_app.command(
    "ls",
    epilog=examples("emberward checkpoint ls runs/bloom_tiny/ID", "emberward checkpoint ls runs/bloom_tiny/ID --json"),
)
def ls_verb(path: PathArgument, runs: RunsOption = DEFAULT_RUNS, is_json: JsonOption = False) -> None:
    """The saves of a run."""
    _run("ls", path, runs, is_json)


@checkpoint_app.command(
    "show", epilog=examples("emberward checkpoint show runs/bloom_tiny/ID", "emberward checkpoint show SAVE --json")
)
def show_verb(path: PathArgument, runs: RunsOption = DEFAULT_RUNS, is_json: JsonOption = False) -> None:
    """The tensors of a save: type, shape, pieces, digest."""
    _run("show", path, runs, is_json)


@checkpoint_app.command(
    "verify", epilog=examples("emberward checkpoint verify runs/bloom_tiny/ID", "emberward checkpoint verify SAVE")
)
def verify_verb(path: PathArgument, runs: RunsOption = DEFAULT_RUNS, is_json: JsonOption = False) -> None:
    """Reads every byte of a save and proves it by its checksums."""
    _run("verify", path, runs, is_json)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[str]:
    from emberward.report import table  # imported here for the time that it saves the other verbs

    return table(titles, rows)


def _ls(path: Path, runs: Path, screen: Screen) -> int:
    root = _root_of(path, runs)
    saves = checkpoint.list_checkpoints(root)
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


def _root_of(word: Path, runs: Path) -> Path:
    """The folder of saves that `word` names; that of a run may be empty or missing. Raises ConfigError K102."""
    for place in places_of(word, runs):
        if checkpoint.is_checkpoint(place) and place.is_dir():
            return place.parent
        if place.name == "checkpoints" and place.is_dir():
            return place
        if (place / "checkpoints").is_dir():
            return place / "checkpoints"
        if place.is_dir() and checkpoint.list_checkpoints(place):
            return place
    run = find_run(word, runs)
    if run is None:
        raise _no_save(word, None, runs)
    return run / "checkpoints"


def _show(path: Path, runs: Path, screen: Screen) -> int:
    found = checkpoint.describe(find_save(path, runs))
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


def _verify(path: Path, runs: Path, screen: Screen) -> int:
    passed_over: tuple[Finding, ...] = ()
    found = _find(path, runs)
    if isinstance(found, Path):
        save = found
    else:
        chosen = found.damaged or found.path
        if chosen is None:
            raise _newest_damaged(found)
        save, passed_over = chosen, () if found.damaged is not None else found.findings
    damage = checkpoint.verify(save, told=Told(f"reading {save.name}", screen.complain))
    findings = (*passed_over, *damage)
    for finding in findings:
        screen.say(_line(finding))
    if damage:
        screen.say(f"next  {damage[0].next}")
    else:
        screen.say(f"{save}: every byte is as it was saved")
    screen.document(findings, save=str(save))
    return exit_code_of(findings)

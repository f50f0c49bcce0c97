"""How ranks that plain torchrun or srun started agree on a run's folder: rank 0 chooses, the others learn it."""

import json
import shlex
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch

from emberward.data import Manifest, open_tokenizer, read_manifest
from emberward.files import anew
from emberward.findings import EmberwardError
from emberward.rank._place import RankInfo
from emberward.rank._skew import START_TIMEOUT_S, Store, fingerprint, require_equal_fingerprints, told_to_others
from emberward.recipe import Resolved, fit_ranks, load_recipe, read_resolved, resolve
from emberward.report import RunFolder, read_json, write_json
from emberward.runs import Intent, Start, begin, choose_run, new_id, prepare_data, recipe_digest, require_no_kill_switch

PREPARE_TIMEOUT_S = 1800.0
COMMAND = ("emberward", "train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a rank was started with: the folder of a prepared run, or a recipe to find or make one for.

    `kill_switch`: the file that stops the run; None for the one beside the runs of its name. `may_move`: whether the
    layout gives way to the number of ranks, as where the number of hosts may change. `joined`: the file that tells this
    host's supervisor which run it is.
    """

    folder: Path | None
    recipe: str | None
    overrides: tuple[str, ...]
    runs: Path
    is_fresh: bool
    kill_switch: Path | None = None
    may_move: bool = False
    joined: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The run that this rank is part of, as this rank itself understands it.

    `world`: the name under which rank 0 opened it; None on other ranks, and where a launcher holds the run's lock.
    """

    folder: RunFolder
    resolved: Resolved
    manifest: Manifest
    world: str | None = None


def join_run(wanted: Wanted, place: RankInfo, store: Store) -> Joined:
    """The run for this rank. All ranks must call; blocks until rank 0 has chosen and its data is ready.

    Each rank resolves its own recipe, so that a rank that was started with another one is found (L101) before a folder
    is made. Raises the errors of `load_recipe`, `resolve` and `choose_run` on the rank that made them, L103 on the
    others.
    """
    if wanted.folder is not None:
        with told_to_others(store, rank=place.rank, host=place.host, meeting="fingerprint"):
            folder = RunFolder(path=wanted.folder)
            require_no_kill_switch(wanted.kill_switch or folder.kill_switch)
            return _read(folder, None)
    with told_to_others(store, rank=place.rank, host=place.host, meeting="recipe"):
        resolved = _resolve(wanted, place)
        here = RunFolder(path=wanted.runs.absolute() / resolved.recipe.name / "any")
        require_no_kill_switch(wanted.kill_switch or here.kill_switch)
    require_equal_fingerprints(
        store,
        fingerprint(torch_version=torch.__version__, config_digest=recipe_digest(resolved), data_digest="-"),
        rank=place.rank,
        host=place.host,
        world_size=place.world_size,
        timeout_s=START_TIMEOUT_S,
        meeting="recipe",
    )
    if place.rank == 0:
        return _open_run(wanted, place, resolved, store)
    answer = _wait_for_choice(store)
    with told_to_others(store, rank=place.rank, host=place.host, meeting="fingerprint"):
        return _read(RunFolder(path=Path(answer)), resolved)


def _open_run(wanted: Wanted, place: RankInfo, resolved: Resolved, store: Store) -> Joined:
    """The run that rank 0 chooses for all, ready for them. Raises what it tells the others."""
    try:
        start = _choose(wanted, place, resolved)
        manifest = prepare_data(resolved.recipe, progress=None)
        assert manifest.path is not None, "a prepared manifest lies on the disk"
        begin(start, resolved, manifest.path)
        _forget_last_attempt(start.folder)
        world = new_id()
        write_json(start.folder.launch, {"launch": place.launch, "world": world, "host": place.host})
    except Exception as error:
        store.set("run", json.dumps({"error": str(error)}))
        raise
    store.set("run", json.dumps({"folder": str(start.folder.path)}))
    return Joined(folder=start.folder, resolved=resolved, manifest=manifest, world=world)


def _choose(wanted: Wanted, place: RankInfo, resolved: Resolved) -> Start:
    """Where this start goes. ``--fresh`` holds for a launch: what that launch began, its restarts go on with."""
    runs, number = wanted.runs.absolute(), new_id()
    assert wanted.recipe is not None, "a run is chosen for a recipe"
    command = shlex.join([*COMMAND, wanted.recipe, *wanted.overrides])
    if not wanted.is_fresh:
        return choose_run(
            runs, resolved, intent=Intent.AUTO, run_id=None, new_id=number, command=command, may_move=wanted.may_move
        )
    if place.is_restart and place.launch is not None:
        start = choose_run(
            runs, resolved, intent=Intent.AUTO, run_id=None, new_id=number, command=command, may_move=wanted.may_move
        )
        if start.is_resume and (read_json(start.folder.launch) or {}).get("launch") == place.launch:
            return start
    return choose_run(runs, resolved, intent=Intent.FRESH, run_id=None, new_id=number, command=command)


def _forget_last_attempt(folder: RunFolder) -> None:
    """Removes what says who ran last and how that ended: it would be taken for this attempt's."""
    for path in (*folder.ranks.glob("rank*.json"), *folder.failures.glob("rank*.json")):
        path.unlink()
    folder.summary.unlink(missing_ok=True)
    folder.progress.unlink(missing_ok=True)


def _resolve(wanted: Wanted, place: RankInfo) -> Resolved:
    assert wanted.recipe is not None
    loaded = (
        fit_ranks(
            wanted.recipe, wanted.overrides, num_ranks=place.world_size, command=COMMAND, keeps_layout=False
        ).loaded
        if wanted.may_move
        else load_recipe(wanted.recipe, wanted.overrides)
    )
    tokenizer = open_tokenizer(loaded.recipe.data.tokenizer)
    return resolve(loaded, num_ranks=place.world_size, tokenizer_size=tokenizer.size)


def _wait_for_choice(store: Store) -> str:
    store.wait(["run"], timedelta(seconds=PREPARE_TIMEOUT_S))
    answer = json.loads(store.get("run"))
    if "error" in answer:
        raise EmberwardError("rank 0 could not open the run", code="L103", where="rank 0", found=answer["error"])
    return str(answer["folder"])


def _read(folder: RunFolder, resolved: Resolved | None) -> Joined:
    """The run in `folder`, with the resolved recipe that lies there unless one is given."""
    if not folder.data.exists():
        raise EmberwardError(
            "the run's folder is not seen here",
            code="L103",
            where=str(folder.path),
            expected="a folder that every host shares, prepared by rank 0",
            found=f"no {folder.data.name}",
            next="--runs DIR on a file system that all hosts share",
        )
    manifest = read_manifest(Path(json.loads(anew(lambda: folder.data.read_text(encoding="utf-8")))["manifest"]))
    return Joined(folder=folder, resolved=resolved or read_resolved(folder.config), manifest=manifest)

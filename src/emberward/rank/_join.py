"""How ranks that plain torchrun or srun started agree on a run's folder: rank 0 chooses, the others learn it."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from emberward.data import Manifest, open_tokenizer, read_manifest
from emberward.findings import EmberwardError
from emberward.rank._place import Place
from emberward.rank._skew import Store
from emberward.recipe import Resolved, load_recipe, read_resolved, resolve
from emberward.report import RunFolder
from emberward.runs import Intent, begin, choose_run, new_id, prepare_data

PREPARE_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a rank was started with: the folder of a prepared run, or a recipe to find or make one for."""

    folder: Path | None
    recipe: str | None
    overrides: tuple[str, ...]
    runs: Path
    is_fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The run that this rank is part of, as this rank itself understands it."""

    folder: RunFolder
    resolved: Resolved
    manifest: Manifest


def join_run(wanted: Wanted, place: Place, store: Store) -> Joined:
    """The run for this rank. All ranks must call; blocks until rank 0 has chosen and its data is ready.

    Each rank resolves its own recipe, so that a rank that was started with another one is found (L101). Raises the
    errors of `load_recipe`, `resolve` and `choose_run` on the rank that made them, L103 on the others.
    """
    if wanted.folder is not None:
        return _read(RunFolder(path=wanted.folder), read_resolved(RunFolder(path=wanted.folder).config))
    assert wanted.recipe is not None, "the arguments were checked"
    if place.rank != 0:
        answer = _wait_for_choice(store)
        return _read(RunFolder(path=Path(answer)), _resolve(wanted, place))
    try:
        resolved = _resolve(wanted, place)
        intent = Intent.FRESH if wanted.is_fresh else Intent.AUTO
        start = choose_run(wanted.runs.absolute(), resolved, intent=intent, run_id=None, new_id=new_id())
        manifest = prepare_data(resolved.recipe, progress=None)
        assert manifest.path is not None, "a prepared manifest lies on the disk"
        begin(start, resolved, manifest.path)
    except Exception as error:
        store.set("run", json.dumps({"error": str(error)}))
        raise
    store.set("run", json.dumps({"folder": str(start.folder.path)}))
    return Joined(folder=start.folder, resolved=resolved, manifest=manifest)


def _resolve(wanted: Wanted, place: Place) -> Resolved:
    assert wanted.recipe is not None
    loaded = load_recipe(wanted.recipe, wanted.overrides)
    tokenizer = open_tokenizer(loaded.recipe.data.tokenizer)
    return resolve(loaded, num_ranks=place.world_size, tokenizer_size=tokenizer.size)


def _wait_for_choice(store: Store) -> str:
    store.wait(["run"], timedelta(seconds=PREPARE_TIMEOUT_S))
    answer = json.loads(store.get("run"))
    if "error" in answer:
        raise EmberwardError("rank 0 could not open the run", code="L103", where="rank 0", found=answer["error"])
    return str(answer["folder"])


def _read(folder: RunFolder, resolved: Resolved) -> Joined:
    manifest = read_manifest(Path(json.loads(folder.data.read_text(encoding="utf-8"))["manifest"]))
    return Joined(folder=folder, resolved=resolved, manifest=manifest)

"""``emberward checkpoint import``, ``export``, ``reshape``: from one form to another, telling how long it takes."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from emberward import checkpoint
from emberward.checkpoint import DType, Exchanged, Foreign, Form
from emberward.cli._checkpoint import find_save
from emberward.cli._console import Screen
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._words import PlainCommand
from emberward.findings import ConfigError, exit_code_of

SourceArgument = Annotated[
    Path, typer.Argument(help="A save, a run, or a folder of DeepSpeed, torch's DCP or Hugging Face.")
]
FamilyOption = Annotated[str | None, typer.Option("--family", help="Model family: bloom, llama, ... or a YAML file.")]
ReplicasOption = Annotated[
    str, typer.Option("--replicas", help="What counts when replicas disagree: refuse, majority, average, rank=K.")
]
VocabOption = Annotated[int | None, typer.Option("--vocab-size", min=1, help="Cut padded rows of the vocabulary.")]
DtypeOption = Annotated[str | None, typer.Option("--dtype", help="Convert floats to F32, BF16, F16 or F64.")]
RanksOption = Annotated[int | None, typer.Option("--ranks", min=1, help="For how many readers it is cut.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, help="Threads; one a processor by default.")]

StagesOption = Annotated[
    str, typer.Option("--stages", help="Of a DeepSpeed pipeline: how many, or the first layer of each, as 0,5,9.")
]

PLAIN = Foreign()
_EVERY_S = 2.0
_MAX_SHOWN = 20
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_FLOATS = ("F32", "BF16", "F16", "F64")


class Progress:
    """Tells how far a conversion is, and how long it will take at the speed so far; at most every two seconds."""

    def __init__(self, verb: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._verb = verb
        self._say = say
        self._clock = clock
        self._began_s = self._last_s = clock()
        self._first_bytes: int | None = None

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        """Takes the bytes that are written and the bytes that there are. What an earlier start wrote is no speed."""
        now_s = self._clock()
        if self._first_bytes is None:
            self._first_bytes = done_bytes
        if now_s - self._last_s < _EVERY_S or total_bytes == 0:
            return
        self._last_s = now_s
        rate = (done_bytes - self._first_bytes) / (now_s - self._began_s)
        left = f", {(total_bytes - done_bytes) / rate:.0f} s left" if rate > 0 else ""
        share = f"{100 * done_bytes / total_bytes:.0f}%, {done_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB"
        self._say(f"{self._verb}: {share}, {rate / 1e6:.0f} MB/s{left}")


def import_verb(
    source: SourceArgument,
    to: Annotated[Path, typer.Argument(help="The folder of saves in which the new save is made.")],
    family: FamilyOption = None,
    replicas: ReplicasOption = "refuse",
    vocab_size: VocabOption = None,
    step: Annotated[int | None, typer.Option("--step", min=0, help="The step, where the files do not tell it.")] = None,
    ranks: RanksOption = None,
    dtype: DtypeOption = None,
    workers: WorkersOption = None,
    is_json: JsonOption = False,
) -> None:
    """Makes a save of a checkpoint of another program. Goes on where a killed one stopped. Needs no torch."""

    _make_save(
        "import",
        lambda: source,
        to,
        lambda made: f"emberward checkpoint show {made}",
        foreign=Foreign(family=family, replicas=replicas, vocab_size=vocab_size),
        step=step,
        ranks=ranks,
        dtype=dtype,
        workers=workers,
        is_json=is_json,
    )


def _make_save(
    verb: str,
    find: Callable[[], Path],
    to: Path,
    hint: Callable[[Path], str],
    *,
    foreign: Foreign = PLAIN,
    step: int | None = None,
    ranks: int | None,
    dtype: str | None,
    workers: int | None,
    is_json: bool,
) -> None:
    """What import and reshape share: both make a save, of whatever the source is."""

    def work(screen: Screen) -> int:
        made = checkpoint.import_checkpoint(
            find(),
            to,
            foreign=foreign,
            step=step,
            num_ranks=ranks,
            dtype=parse_dtype(dtype),
            num_workers=workers,
            told=Progress(verb, screen.complain),
        )
        return _tell(made, screen, hint(made.written.path))

    guarded(work, is_json=is_json)


def export_verb(
    source: SourceArgument,
    to: Annotated[Path, typer.Argument(help="The folder to write; it must not exist.")],
    form: Annotated[Form, typer.Option("--form", help="The form to write.")] = Form.HUGGING_FACE,
    family: FamilyOption = None,
    replicas: ReplicasOption = "refuse",
    vocab_size: VocabOption = None,
    dtype: DtypeOption = None,
    max_shard_size: Annotated[str, typer.Option("--max-shard-size", help="Of a Hugging Face file: 5GB.")] = "5GB",
    ranks: RanksOption = None,
    stages: StagesOption = "1",
    workers: WorkersOption = None,
    is_json: JsonOption = False,
) -> None:
    """Writes a checkpoint as another program has it; the weights as a Hugging Face folder unless --form says else."""

    def work(screen: Screen) -> int:
        config, own_family = _hugging_face_config(source, form)
        made = checkpoint.export_checkpoint(
            source,
            to,
            form=form,
            foreign=Foreign(family=family or own_family, replicas=replicas, vocab_size=vocab_size),
            config=config,
            max_shard_bytes=parse_bytes(max_shard_size),
            dtype=parse_dtype(dtype),
            num_ranks=ranks,
            stages=stages,
            num_workers=workers,
            told=Progress("export", screen.complain),
        )
        hints = {
            Form.HUGGING_FACE: f"transformers.AutoModelForCausalLM.from_pretrained({str(to)!r})",
            Form.UNIVERSAL: f'DeepSpeed: "checkpoint": {{"load_universal": true}}, load_checkpoint({str(to.parent)!r})',
            Form.ZERO_1: f"DeepSpeed, on as many ranks and stages: load_checkpoint({str(to.parent)!r})",
            Form.ZERO_2: f"DeepSpeed, on as many ranks: load_checkpoint({str(to.parent)!r})",
            Form.ZERO_3: f"DeepSpeed, on as many ranks: load_checkpoint({str(to.parent)!r})",
            Form.DCP: f"torch.distributed.checkpoint.load(state_dict, checkpoint_id={str(to)!r})",
        }
        lacks_config = form is Form.HUGGING_FACE and not (to / "config.json").exists()
        missing = "no config.json was written: the source has none; add the model's own before you load it"
        return _tell(made, screen, missing if lacks_config else hints.get(form, ""))

    guarded(work, is_json=is_json)


def reshape_verb(
    source: Annotated[Path, typer.Argument(help="A save, or the run (the newest save of it).")],
    to: Annotated[Path, typer.Argument(help="The folder of saves in which the copy is made.")],
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="For how many readers it is cut.")],
    dtype: DtypeOption = None,
    workers: WorkersOption = None,
    is_json: JsonOption = False,
) -> None:
    """Copies a save, cut for another number of ranks: same tensors, same digests, one file a rank. Needs no torch."""

    _make_save(
        "reshape",
        lambda: find_save(source),
        to,
        lambda made: f"emberward checkpoint diff {find_save(source)} {made}",
        ranks=ranks,
        dtype=dtype,
        workers=workers,
        is_json=is_json,
    )


def diff_verb(
    a: SourceArgument,
    b: Annotated[Path, typer.Argument(help="The checkpoint to compare it with; any form.")],
    family: FamilyOption = None,
    is_json: JsonOption = False,
) -> None:
    """Which tensors of two checkpoints differ, and by how much. Exit code 1 when one does. Needs no torch."""

    def work(screen: Screen) -> int:
        found = checkpoint.diff(a, b, reading=Foreign(family=family).reading())
        screen.say(f"compared {found.a} with {found.b}")
        for difference in found.differences[:_MAX_SHOWN]:
            screen.say(f"{difference.name}: {difference.why}")
        if len(found.differences) > _MAX_SHOWN:
            screen.say(f"... and {len(found.differences) - _MAX_SHOWN} more; --json lists all")
        screen.say(
            f"{found.num_equal} tensors are equal ({found.num_by_digest} by their digests), "
            f"{len(found.differences)} differ"
        )
        findings = found.findings()
        screen.document(findings, **found.to_json())
        return exit_code_of(findings)

    guarded(work, is_json=is_json)


def repair_verb(
    source: Annotated[Path, typer.Argument(help="A DeepSpeed checkpoint, or with --from a save.")],
    to: Annotated[Path, typer.Argument(help="The mended copy; with --from the folder of saves in which it is made.")],
    family: FamilyOption = None,
    replicas: ReplicasOption = "majority",
    other: Annotated[Path | None, typer.Option("--from", help="Take damaged tensors of a save from this one.")] = None,
    tensors: Annotated[list[str] | None, typer.Option("--tensor", help="With --from: these too; may have *.")] = None,
    is_json: JsonOption = False,
) -> None:
    """Mends a copy: replicas that parted (DeepSpeed), or damaged tensors of a save. Needs no torch."""

    def work(screen: Screen) -> int:
        if other is not None:
            told = Progress("repair", screen.complain)
            save = find_save(source)
            done = checkpoint.repair_save(save, to, other=other, names=tuple(tensors or ()), told=told)
        else:
            done = checkpoint.repair_replicas(source, to, reading=Foreign(family=family, replicas=replicas).reading())
        for finding in done.findings:
            screen.say(f"{finding.code} {finding.message}")
        for name in done.tensors if other is not None else ():
            screen.say(f"{name} taken from {other}")
        screen.say(f"wrote {done.path}: {len(done.tensors)} tensors mended")
        screen.document(done.findings, **done.to_json())
        return exit_code_of(done.findings)

    guarded(work, is_json=is_json)


def add_exchange_verbs(app: typer.Typer) -> None:
    """Gives ``emberward checkpoint`` the verbs of this file."""
    app.command("import", cls=PlainCommand)(import_verb)
    app.command("export", cls=PlainCommand)(export_verb)
    app.command("reshape", cls=PlainCommand)(reshape_verb)
    app.command("diff", cls=PlainCommand)(diff_verb)
    app.command("repair")(repair_verb)


def _tell(made: Exchanged, screen: Screen, hint: str) -> int:
    for finding in made.findings:
        screen.say(f"{finding.code} {finding.message}")
        for line in finding.evidence:
            screen.say(f"  {line}")
    kept = f", {made.written.num_kept} of them from before" if made.written.num_kept else ""
    screen.say(
        f"wrote {made.written.path} ({made.form}): {made.num_tensors} tensors, {made.written.num_bytes / 1e6:.1f} MB, "
        f"{made.written.num_files} files{kept}, {made.written.seconds:.1f} s"
    )
    if hint:
        screen.say(f"  {hint}")
    screen.document(made.findings, **made.to_json())
    return exit_code_of(made.findings)


def _hugging_face_config(source: Path, form: Form) -> tuple[dict[str, Any] | None, str | None]:
    """The configuration and family of a run of ours for Hugging Face; (None, None) when the source is no such run."""
    if form is not Form.HUGGING_FACE:
        return None, None
    try:
        save = find_save(source)
    except ConfigError:
        return None, None
    if not (save.parent.parent / "config.resolved.yaml").is_file():
        return None, None
    from emberward.cli._export import config_of_run  # torch is needed for this alone

    return config_of_run(save), "bloom"


def parse_dtype(text: str | None) -> DType | None:
    """The number type of that name. Raises ConfigError C112 for one that floats are not converted to."""
    if text is None:
        return None
    if text.upper() not in _FLOATS:
        raise ConfigError(
            "floats are not converted to this type",
            code="C103",
            where="--dtype",
            expected=" or ".join(_FLOATS),
            found=text,
        )
    return DType(text.upper())


def parse_bytes(text: str) -> int:
    """The number of bytes that ``5GB``, ``500MiB`` or ``1000000`` say. Raises ConfigError C103."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|M|G|Ki|Mi|Gi)?B?", text.strip())
    if found is None or float(found[1]) <= 0:
        raise ConfigError(
            "a size is not understood", code="C103", where="--max-shard-size", expected="as 5GB or 500MiB", found=text
        )
    return int(float(found[1]) * _UNITS[found[2] or ""])

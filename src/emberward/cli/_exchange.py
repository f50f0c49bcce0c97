"""``emberward checkpoint import``, ``export``, ``reshape``: from one form to another, telling how long it takes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emberward import checkpoint
from emberward.checkpoint import DType, Exchanged, Foreign, Form
from emberward.cli._checkpoint import find_save, find_source
from emberward.cli._console import Screen, Told
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption
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
AcceptOption = Annotated[
    list[str] | None, typer.Option("--accept-damage", help="Read this file although it is damaged; its name alone.")
]
DtypeOption = Annotated[str | None, typer.Option("--dtype", help="Convert floats to F32, BF16, F16 or F64.")]
RanksOption = Annotated[int | None, typer.Option("--ranks", min=1, help="For how many readers it is cut.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, help="Threads; one a processor by default.")]

StagesOption = Annotated[
    str, typer.Option("--stages", help="Of a DeepSpeed pipeline: how many, or the first layer of each, as 0,5,9.")
]

if TYPE_CHECKING:
    from emberward.cli._export import HuggingFaceModel
FormOption = Annotated[
    Form,
    typer.Option("--form", metavar="FORM", help="huggingface, emberward, dcp, deepspeed, deepspeed-universal, ..."),
]

PLAIN = Foreign()
_MAX_SHOWN = 20
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_FLOATS = ("F32", "BF16", "F16", "F64")


def import_verb(
    source: SourceArgument,
    to: Annotated[Path, typer.Argument(help="The folder of saves in which the new save is made.")],
    family: FamilyOption = None,
    replicas: ReplicasOption = "refuse",
    vocab_size: VocabOption = None,
    step: Annotated[int | None, typer.Option("--step", min=0, help="The step, where the files do not tell it.")] = None,
    ranks: RanksOption = None,
    dtype: DtypeOption = None,
    accept_damage: AcceptOption = None,
    workers: WorkersOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Makes a save of a checkpoint of another program. Goes on where a killed one stopped. Needs no torch."""

    _make_save(
        "import",
        lambda: find_source(source, runs),
        to,
        lambda made: f"emberward checkpoint show {made}",
        foreign=foreign_of(family, replicas, vocab_size, accept_damage),
        step=step,
        ranks=ranks,
        dtype=dtype,
        workers=workers,
        is_json=is_json,
    )


def foreign_of(family: str | None, replicas: str, vocab_size: int | None, accept_damage: list[str] | None) -> Foreign:
    """How the source is read, as the options say."""
    accepted = tuple(accept_damage or ())
    return Foreign(family=family, replicas=replicas, vocab_size=vocab_size, accept_damage=accepted)


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
            told=Told(verb, screen.complain),
        )
        return _tell(made, screen, hint(made.written.path))

    guarded(work, is_json=is_json)


def export_verb(
    source: SourceArgument,
    to: Annotated[Path, typer.Argument(help="The folder to write; it must not exist.")],
    form: Annotated[
        Form,
        typer.Option(
            "--form",
            metavar="FORM",
            help="huggingface, emberward, dcp, deepspeed, deepspeed-universal or deepspeed-zero1, 2, 3.",
        ),
    ] = Form.HUGGING_FACE,
    family: FamilyOption = None,
    replicas: ReplicasOption = "refuse",
    vocab_size: VocabOption = None,
    dtype: DtypeOption = None,
    max_shard_size: Annotated[str, typer.Option("--max-shard-size", help="Of a Hugging Face file: 5GB.")] = "5GB",
    ranks: RanksOption = None,
    stages: StagesOption = "1",
    accept_damage: AcceptOption = None,
    workers: WorkersOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Writes a checkpoint as another program has it; the weights as a Hugging Face folder unless --form says else."""

    def work(screen: Screen) -> int:
        found = find_source(source, runs)
        model = _hugging_face_model(found, form)
        made = checkpoint.export_checkpoint(
            found,
            to,
            form=form,
            foreign=foreign_of(
                family or (None if model is None else model.family), replicas, vocab_size, accept_damage
            ),
            config=None if model is None else model.config,
            beside={} if model is None else model.tokenizer,
            max_shard_bytes=parse_bytes(max_shard_size),
            dtype=parse_dtype(dtype),
            num_ranks=ranks,
            stages=stages,
            num_workers=workers,
            told=Told("export", screen.complain),
        )
        hints = {
            Form.HUGGING_FACE: f"transformers.AutoModelForCausalLM.from_pretrained({str(to)!r})"
            if model is None
            else model.program(to),
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
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Copies a save, cut for another number of ranks: same tensors, same digests, one file a rank. Needs no torch."""

    _make_save(
        "reshape",
        lambda: find_save(source, runs),
        to,
        lambda made: f"emberward checkpoint diff {find_save(source, runs)} {made}",
        ranks=ranks,
        dtype=dtype,
        workers=workers,
        is_json=is_json,
    )


def diff_verb(
    a: SourceArgument,
    b: Annotated[Path, typer.Argument(help="The checkpoint to compare it with; any form.")],
    family: FamilyOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Which tensors of two checkpoints differ, and by how much. Exit code 1 when one does. Needs no torch."""

    def work(screen: Screen) -> int:
        found = checkpoint.diff(find_source(a, runs), find_source(b, runs), reading=Foreign(family=family).reading())
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
    to: Annotated[Path, typer.Argument(help="The repaired copy; with --from the folder of saves in which it is made.")],
    family: FamilyOption = None,
    replicas: ReplicasOption = "majority",
    other: Annotated[Path | None, typer.Option("--from", help="Take damaged tensors of a save from this one.")] = None,
    tensors: Annotated[list[str] | None, typer.Option("--tensor", help="With --from: these too; may have *.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Repairs a copy: replicas that differ (DeepSpeed), or damaged tensors of a save. Needs no torch."""

    def work(screen: Screen) -> int:
        if other is not None:
            told = Told("repair", screen.complain)
            save, healthy = find_save(source, runs), find_source(other, runs)
            done = checkpoint.repair_save(save, to, other=healthy, names=tuple(tensors or ()), told=told)
        else:
            reading = Foreign(family=family, replicas=replicas).reading()
            done = checkpoint.repair_replicas(find_source(source, runs), to, reading=reading)
        for finding in done.findings:
            screen.say(f"{finding.code} {finding.message}")
        for name in done.tensors if other is not None else ():
            screen.say(f"{name} taken from {other}")
        screen.say(f"wrote {done.path}: {len(done.tensors)} tensors repaired")
        screen.document(done.findings, **done.to_json())
        return exit_code_of(done.findings)

    guarded(work, is_json=is_json)


def add_exchange_verbs(app: typer.Typer) -> None:
    """Gives ``emberward checkpoint`` the verbs of this file."""
    app.command(
        "import",
        cls=PlainCommand,
        epilog=examples(
            "emberward checkpoint import deepspeed_folder saves",
            "emberward checkpoint import hf_folder saves --family bloom",
        ),
    )(import_verb)
    app.command(
        "export",
        cls=PlainCommand,
        epilog=examples(
            "emberward checkpoint export runs/bloom_tiny/ID hf_model",
            "emberward checkpoint export runs/bloom_tiny/ID ds --form deepspeed --ranks 4",
        ),
    )(export_verb)
    app.command(
        "reshape",
        cls=PlainCommand,
        epilog=examples(
            "emberward checkpoint reshape runs/bloom_tiny/ID saves --ranks 4",
            "emberward checkpoint reshape SAVE saves --ranks 1",
        ),
    )(reshape_verb)
    app.command(
        "diff",
        cls=PlainCommand,
        epilog=examples(
            "emberward checkpoint diff SAVE OTHER", "emberward checkpoint diff runs/bloom_tiny/ID hf_folder"
        ),
    )(diff_verb)
    app.command(
        "repair",
        epilog=examples(
            "emberward checkpoint repair ds_folder repaired --replicas majority",
            "emberward checkpoint repair SAVE saves --from OTHER",
        ),
    )(repair_verb)


def _say_table(made: Exchanged, screen: Screen) -> None:
    """The table of what the source holds, and why something was left out."""
    if all(row.found == row.imported for row in made.table):
        return
    screen.say(f"{'':22} found  imported  left out")
    for row in made.table:
        why = "; ".join(row.why)
        screen.say(f"{row.held:22} {row.found:5}  {row.imported:8}  {row.found - row.imported:8}  {why}".rstrip())


def _tell(made: Exchanged, screen: Screen, hint: str) -> int:
    for finding in made.findings:
        screen.say(f"{finding.code} {finding.message}")
        for line in finding.evidence:
            screen.say(f"  {line}")
    _say_table(made, screen)
    written = made.written
    kept = f", {written.num_kept} of them from before" if written.num_kept else ""
    screen.say(
        f"wrote {written.path} ({made.form}): {written.num_tensors} tensors, {written.num_bytes / 1e6:.1f} MB, "
        f"{written.num_files} files{kept}, {written.seconds:.1f} s"
    )
    if hint:
        screen.say(hint)
    screen.document(made.findings, **made.to_json())
    return exit_code_of(made.findings)


def _hugging_face_model(source: Path, form: Form) -> "HuggingFaceModel | None":
    """What a Hugging Face folder needs beside the weights of a run of ours; None when the source is no such run, or
    transformers has no such model."""
    is_ours = checkpoint.is_checkpoint(source) and (source.parent.parent / "config.resolved.yaml").is_file()
    if form is not Form.HUGGING_FACE or not is_ours:
        return None
    from emberward.cli._export import model_of_run  # torch is needed for this alone

    try:
        return model_of_run(source)
    except NotImplementedError:  # of the family's `hf_config`
        return None


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

"""What people ask for: import, export and reshape of checkpoints, whatever form they have. Needs no torch."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.checkpoint._convert import Converted, Plan, Told, convert, silent
from emberward.checkpoint._convert_save import plan_save, point_to, source_stamp
from emberward.checkpoint._foreign._contents import Item, Row, rows_of
from emberward.checkpoint._foreign._family import Family, read_family
from emberward.checkpoint._foreign._hugging_face import plan_hugging_face
from emberward.checkpoint._foreign._merge import Reading
from emberward.checkpoint._foreign._native_cut import Stages
from emberward.checkpoint._foreign._open import open_source, step_in_name
from emberward.checkpoint._foreign._problems import not_understood
from emberward.checkpoint._foreign._replicas import Replicas
from emberward.checkpoint._foreign._source import Form, Source
from emberward.checkpoint._foreign._write_dcp import plan_dcp
from emberward.checkpoint._foreign._write_native import plan_native
from emberward.checkpoint._foreign._write_universal import plan_universal
from emberward.checkpoint._format import DType
from emberward.checkpoint._reader import read_manifest
from emberward.checkpoint._verify import require_headers
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

NOTHING: Mapping[str, bytes] = {}
DEFAULT_SHARD_BYTES = 5_000_000_000
"""Size of a Hugging Face shard unless another is asked for (transformers 4's own default, "5GB")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """How another program's checkpoint is to be read or written.

    `family` is a name or a YAML file; None takes what the files themselves say. `replicas` is ``refuse``, ``majority``,
    ``average`` or ``rank=K``. `vocab_size` cuts padded rows of the vocabulary. `accept_damage` names files that are
    read although they contradict their own checksums, or one another.
    """

    family: str | None = None
    replicas: str = "refuse"
    vocab_size: int | None = None
    accept_damage: tuple[str, ...] = ()

    def reading(self) -> Reading:
        """The same, with the family read. Raises K110 or K114."""
        try:
            policy = Replicas.parse(self.replicas)
        except ValueError as error:
            raise not_understood(
                "it is not clear which replica is to count",
                where="--replicas",
                expected="refuse, majority, average or rank=K",
                found=self.replicas,
            ) from error
        family = None if self.family is None else read_family(self.family)
        accepted = frozenset(self.accept_damage)
        return Reading(family=family, replicas=policy, vocab_size=self.vocab_size, accepted=accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """What was written, what it was made of, and what was found on the way."""

    written: Converted
    form: Form
    source_form: Form
    findings: tuple[Finding, ...]
    items: tuple[Item, ...]

    @property
    def table(self) -> tuple[Row, ...]:
        """What the source holds, kind by kind: found, imported, left out and why."""
        return rows_of(self.items)

    def to_json(self) -> dict[str, Any]:
        """The result as one JSON object."""
        return {
            "written": str(self.written.path),
            "form": self.form.value,
            "source_form": self.source_form.value,
            "num_tensors": self.written.num_tensors,
            "num_files": self.written.num_files,
            "num_kept_files": self.written.num_kept,
            "num_bytes": self.written.num_bytes,
            "seconds": round(self.written.seconds, 3),
            "table": [row.to_json() for row in self.table],
            "contents": [item.to_json() for item in self.items],
        }


def import_checkpoint(
    path: Path,
    root: Path,
    *,
    foreign: Foreign,
    step: int | None = None,
    num_ranks: int | None = None,
    dtype: DType | None = None,
    num_workers: int | None = None,
    told: Told = silent,
) -> Exchanged:
    """A save of ours in the folder `root`, made of a checkpoint of any form; ``latest`` names it then.

    `step` is needed where neither files nor folder tell it. It is cut for `num_ranks` readers, None: as many as wrote
    the source. `dtype` converts weights and moments. Blocks; goes on where a killed one stopped. Raises K110 to K114.
    """
    source = _open(path, foreign.reading())
    at = next((found for found in (step, source.step, step_in_name(path)) if found is not None), 0)
    plan = plan_save(
        source,
        root,
        step=at,
        num_ranks=num_ranks or max(1, source.num_ranks),
        dtype=dtype,
        meta=_meta(source),
    )
    written = convert(plan, num_workers=_workers(num_workers), told=told, prove=source.evidence.finish)
    point_to(plan.result)
    return _exchanged(written, Form.EMBERWARD, source)


def _open(path: Path, reading: Reading) -> Source:
    """The checkpoint to convert; one of ours with every data file whole by its size and header. Raises K101."""
    source = open_source(path, reading)
    if source.form is Form.EMBERWARD:
        require_headers(source.path, read_manifest(source.path))
    return source


def _meta(source: Source) -> Mapping[str, Any]:
    """What a save keeps beside the tensors: ours as it is; of another form, what it said and where it came from."""
    if source.form is Form.EMBERWARD:
        return source.meta
    return {**source.meta, "imported_from": {"form": source.form.value, "path": str(source.path)}}


def export_checkpoint(
    path: Path,
    result: Path,
    *,
    form: Form,
    foreign: Foreign,
    config: Mapping[str, Any] | None = None,
    beside: Mapping[str, bytes] = NOTHING,
    max_shard_bytes: int = DEFAULT_SHARD_BYTES,
    dtype: DType | None = None,
    num_ranks: int | None = None,
    stages: str = "1",
    num_workers: int | None = None,
    told: Told = silent,
) -> Exchanged:
    """The folder `result` in another program's form, made of a checkpoint of any form.

    The family is the one asked for, else the one with which the source was imported. `config` is Hugging Face's
    ``config.json`` and `beside` files to write as they are, such as a tokenizer's; these, `max_shard_bytes` and `dtype`
    are for that form alone. `num_ranks` files are written in the forms
    that have one a rank; `stages` (a number, or the first layer of each: ``0,5,9``) cuts DeepSpeed's ZeRO 1 for a
    pipeline. Blocks; goes on where a killed one stopped.
    """
    reading = foreign.reading()
    source = _open(path, reading)
    family = reading.family or _family_of(source, form)
    stamp = source_stamp(source)
    ranks = num_ranks or max(1, source.num_ranks)
    match form:
        case Form.HUGGING_FACE:
            plan = plan_hugging_face(
                source,
                result,
                family=family,
                config=config,
                beside=beside,
                max_shard_bytes=max_shard_bytes,
                dtype=dtype,
                stamp=stamp,
            )
        case Form.UNIVERSAL:
            plan = plan_universal(source, result, family, stamp)
        case Form.DCP:
            plan = plan_dcp(source, result, num_ranks=ranks, stamp=stamp)
        case Form.ZERO_1 | Form.ZERO_2 | Form.ZERO_3:
            cut = Stages.parse(stages)
            plan = plan_native(source, result, family, stamp, form=form, num_ranks=ranks, stages=cut)
        case Form.EMBERWARD | Form.DEEPSPEED:
            raise not_understood(
                "this form is not written",
                where="--form",
                expected=", ".join(sorted(set(Form) - {Form.EMBERWARD, Form.DEEPSPEED})),
                found=form.value,
                next="emberward checkpoint import writes Emberward's own form",
            )
    written = convert(plan, num_workers=_workers(num_workers), told=told, prove=source.evidence.finish)
    return _exchanged(written, form, source, _left_behind(plan))


def _family_of(source: Source, form: Form) -> Family | None:
    """The family that a source was imported with, when it is to go back to where it came from; else None."""
    kept = {Form.HUGGING_FACE: "huggingface", Form.DCP: None}.get(form, "deepspeed")
    name = source.meta.get(kept, {}).get("family") if kept is not None else None
    return None if name is None else read_family(name)


def reshape(
    path: Path,
    root: Path,
    *,
    num_ranks: int,
    dtype: DType | None = None,
    num_workers: int | None = None,
    told: Told = silent,
) -> Exchanged:
    """A copy of a save in the folder `root`, cut for `num_ranks` readers: same tensors, same digests, other pieces.

    A save can be read on any layout as it is; this makes each of `num_ranks` ranks read one file. Blocks. Raises K101.
    """
    return import_checkpoint(
        path, root, foreign=Foreign(), num_ranks=num_ranks, dtype=dtype, num_workers=num_workers, told=told
    )


def _workers(asked: int | None) -> int:
    return asked or min(8, len(os.sched_getaffinity(0)))


def _left_behind(plan: Plan) -> tuple[Finding, ...]:
    """A notice of the weights that an engine does not take from the form; none when there are none."""
    names = sorted(plan.left_behind)
    if not names:
        return ()
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
    finding = Finding(
        code="K116",
        severity=Severity.NOTICE,
        kind=Kind.RESOURCE,
        cause=Cause.NONE,
        certainty=Certainty.PROVED,
        message=f"{len(names)} tensors without moments lie in the model's file alone, where an engine does not look: "
        f"{listed}",
        site=str(plan.result),
        next="torch.load mp_rank_00_model_states.pt and give its `module` to load_state_dict(strict=False)",
    )
    return (finding,)


def _exchanged(written: Converted, form: Form, source: Source, findings: tuple[Finding, ...] = ()) -> Exchanged:
    return Exchanged(
        written=written,
        form=form,
        source_form=source.form,
        findings=(*source.findings, *source.evidence.findings, *findings),
        items=source.items,
    )

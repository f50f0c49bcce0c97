"""Repairs checkpoints: replicas of a DeepSpeed checkpoint that parted, and tensors of a save of ours that are damaged.

What BLOOM-176B's people had to write while it stood still: layer norms had parted over tensor-parallel ranks, in the
bf16 weights, the fp32 masters and both moments (chronicles of the run, 2022-03). All four are repaired here, in a copy.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._convert import Told, convert, silent
from emberward.checkpoint._convert_save import plan_save, point_to
from emberward.checkpoint._foreign._bits import FLOATS
from emberward.checkpoint._foreign._bits import convert as convert_bits
from emberward.checkpoint._foreign._deepspeed import Slices, is_deepspeed, low_precision_weights, read_set
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._merge import Reading, our_name
from emberward.checkpoint._foreign._open import open_source
from emberward.checkpoint._foreign._patch import mend_checksums, overwrite
from emberward.checkpoint._foreign._problems import not_understood
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._replicas import settle
from emberward.checkpoint._foreign._source import Form, Source
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._foreign._torch_file import Archives
from emberward.checkpoint._foreign._zero import FP32
from emberward.findings import EmberwardError, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was repaired: names of the tensors, where the repaired checkpoint lies, and a finding for each."""

    path: Path
    tensors: tuple[str, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """The result as one JSON object."""
        return {"written": str(self.path), "tensors": list(self.tensors)}


def repair_replicas(folder: Path, result: Path, *, reading: Reading) -> Repaired:
    """A copy of a DeepSpeed checkpoint in which replicas over tensor-parallel ranks are equal, as `reading` says.

    The weights that the model computes with become the repaired fp32 weight in their own type. All else is copied
    byte for byte. Blocks; needs no torch. Raises K102 when `result` exists, K110, K112, K114.
    """
    if not is_deepspeed(folder):
        raise not_understood(
            "replicas are repaired in DeepSpeed's checkpoints",
            where=str(folder),
            expected="a folder with zero_pp_rank_*_optim_states.pt",
            found="none of these",
            next="a save of Emberward keeps each element once; --from SAVE repairs a damaged one",
        )
    if result.exists():
        raise not_understood(
            "the result exists already", where=str(result), expected="a path that is free", code="K102"
        )
    archives = Archives(Evidence(reading.accepted))
    found = read_set(folder, archives, reading.replicas)
    archives.evidence.finish()  # the copies' checksums are made anew: no damage may pass under them
    family, changes, findings = reading.family, list[tuple[Stored, Stored]](), list[Finding]()
    if family is None:
        raise not_understood(
            "only a model family says which tensors are replicated", where="--family", expected="a family", found="none"
        )
    with Reader() as reader:
        for name, kinds in _replicated(found.slices, reading).items():
            for kind, by_rank in kinds.items():
                settled = settle(our_name(kind, name), by_rank, reading.replicas, reader)
                if settled.finding is not None:
                    findings.append(settled.finding)
                    changes += [(stored, settled.stored) for stored in by_rank.values()]
                    if kind == FP32:
                        changes += [(low, settled.stored) for low in low_precision_weights(folder, name)]
        temporary = result.with_name(f".{result.name}.converting")
        if temporary.exists():
            shutil.rmtree(temporary)
        shutil.copytree(folder, temporary)
        _apply(changes, folder, temporary, reader)
    temporary.rename(result)
    return Repaired(
        path=result,
        tensors=tuple(finding.site or "" for finding in findings),
        findings=tuple(findings),
    )


def _replicated(slices: Sequence[Slices], reading: Reading) -> dict[str, dict[str, dict[int, Stored]]]:
    """By name, kind and model-parallel rank: what the ranks of one stage hold in full each."""
    assert reading.family is not None
    found: dict[str, dict[str, dict[int, Stored]]] = {}
    for part in slices:
        for (kind, name), stored in part.tensors.items():
            match = reading.family.match(name)
            if match is not None and match.rule.split is None:
                found.setdefault(name, {}).setdefault(kind, {})[part.group_rank] = stored
    return found


def _apply(changes: Sequence[tuple[Stored, Stored]], folder: Path, temporary: Path, reader: Reader) -> None:
    touched: set[Path] = set()
    for stored, repaired in changes:
        bits = reader.array(repaired)
        if stored.dtype is not repaired.dtype and {stored.dtype, repaired.dtype} <= FLOATS:
            bits = convert_bits(bits, repaired.dtype, stored.dtype)
        moved = {
            region.where: temporary / region.where.relative_to(folder)
            for region in stored.regions
            if isinstance(region.where, Path)
        }
        overwrite(stored, bits, moved)
        touched |= set(moved.values())
    for path in sorted(touched):
        mend_checksums(path)


def repair_save(
    save: Path,
    root: Path,
    *,
    other: Path,
    names: Sequence[str] = (),
    num_workers: int = 2,
    told: Told = silent,
) -> Repaired:
    """A copy of a save of ours in which tensors that are damaged, or fit one of `names`, are those of `other`.

    `names` may have ``*``. Every byte of the save is read. Blocks. Raises K102 when there is nothing to repair, or the
    other checkpoint does not have such a tensor.
    """
    source, healthy = open_source(save, Reading()), open_source(other, Reading())
    if source.form is not Form.EMBERWARD:
        raise not_understood("this is no save of Emberward", where=str(save), expected="a step-... folder", code="K102")
    with Reader() as reader:
        chosen = [
            name
            for name, stored in sorted(source.tensors.items())
            if any(fnmatchcase(name, pattern) for pattern in names) or not is_readable(stored, reader)
        ]
    if not chosen:
        raise not_understood(
            "there is nothing to repair",
            where=str(save),
            expected="a damaged tensor, or one that --tensor names",
            found="every byte is as it was saved",
            code="K102",
        )
    tensors = {**source.tensors, **{name: _fitting(healthy, source.tensors[name]) for name in chosen}}
    repaired = {name: str(healthy.path) for name in chosen}
    merged = Source(
        form=source.form,
        path=source.path,
        step=source.step,
        num_ranks=source.num_ranks,
        tensors=tensors,
        meta={**source.meta, "repaired": repaired},
        files=(*source.files[:1], *(path for path in source.files[1:] if path.exists()), *healthy.files),
    )
    assert source.step is not None
    plan = plan_save(merged, root, step=source.step, num_ranks=max(1, source.num_ranks), dtype=None, meta=merged.meta)
    convert(plan, num_workers=num_workers, told=told)
    point_to(plan.result)
    return Repaired(path=plan.result, tensors=tuple(chosen), findings=())


def _fitting(healthy: Source, wanted: Stored) -> Stored:
    found = healthy.tensors.get(wanted.name)
    if found is None or (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        raise not_understood(
            f"tensor {wanted.name} cannot be taken from the other checkpoint",
            where=str(healthy.path),
            expected=f"{wanted.dtype} {wanted.shape}",
            found="no such tensor" if found is None else f"{found.dtype} {found.shape}",
            code="K102",
        )
    return found


def is_readable(stored: Stored, reader: Reader) -> bool:
    """Whether every byte of a tensor can be read and is as its checksums say."""
    try:
        for _ in read_tiles(reader, stored, whole_box(stored.shape)):
            pass
    except EmberwardError:
        return False
    return stored.num_placed == stored.num_elements

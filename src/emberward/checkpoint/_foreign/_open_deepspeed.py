"""A DeepSpeed checkpoint as a `Source`, with what is needed to write it again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._deepspeed import DeepSpeedSet, read_set
from emberward.checkpoint._foreign._merge import Reading, merge, to_ours
from emberward.checkpoint._foreign._source import Form, Source, require_whole
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._foreign._tree import to_json


def open_deepspeed(folder: Path, reading: Reading) -> Source:
    """The checkpoint of ZeRO 1, 2 or 3 in the folder. Replicated tensors are read, to compare them; no other."""
    found = read_set(folder)
    merged = merge(found.slices, found.tensor_parallel, reading)
    tensors, tied = to_ours(merged.tensors, reading)
    require_whole(tensors, folder)
    return source_of(
        folder=folder,
        form=Form.DEEPSPEED,
        found=found,
        tensors=tensors,
        findings=(*merged.findings, *tied),
        reading=reading,
    )


def source_of(
    *,
    folder: Path,
    form: Form,
    found: DeepSpeedSet,
    tensors: dict[str, Stored],
    findings: tuple[Any, ...],
    reading: Reading,
) -> Source:
    """The source, with DeepSpeed's own values kept under ``deepspeed`` of its meta, their tensors under ``other/``."""

    def keep(stored: Stored) -> str:
        name = "other/deepspeed" + stored.name
        tensors[name] = stored.named(name)
        return name

    states = found.states
    meta = {
        "deepspeed": {
            "zero_stage": found.zero_stage,
            "groups": [list(group) for group in found.groups],
            "states": to_json(states, keep),
            "optimizer": to_json(found.optimizer, keep),
            "family": None if reading.family is None else reading.family.name,
        },
        "num_updates": found.num_updates,
        "consumed_samples": _number(states, "global_samples"),
    }
    return Source(
        form=form,
        path=folder,
        step=_number(states, "global_steps"),
        num_ranks=found.num_data_ranks * max(1, len(found.slices)),
        tensors=tensors,
        meta=meta,
        files=found.files,
        findings=findings,
    )


def _number(states: Mapping[str, Any], key: str) -> int | None:
    value = states.get(key)
    return int(value) if isinstance(value, (int, float)) else None

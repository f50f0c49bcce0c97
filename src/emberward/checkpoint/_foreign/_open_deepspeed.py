"""A DeepSpeed checkpoint as a `Source`, with what is needed to write it again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._contents import Item, unread_files
from emberward.checkpoint._foreign._deepspeed import DeepSpeedSet, read_set
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._merge import Reading, merge, to_ours
from emberward.checkpoint._foreign._source import Form, Source, require_whole
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._foreign._torch_file import Archives
from emberward.checkpoint._foreign._tree import to_json


def open_deepspeed(folder: Path, reading: Reading) -> Source:
    """The checkpoint of ZeRO 1, 2 or 3 in the folder. Tensors that stand more than once are read, to compare them."""
    archives = Archives(Evidence(reading.accepted))
    found = read_set(folder, archives, reading.replicas)
    merged = merge(found.slices, found.tensor_parallel, reading)
    ours = to_ours(merged.tensors, reading, found.held)
    require_whole(ours.tensors, folder)
    return source_of(
        folder=folder,
        form=Form.DEEPSPEED,
        found=found,
        archives=archives,
        tensors=ours.tensors,
        findings=(*merged.findings, *ours.findings),
        items=(*ours.items, *found.items, *merged.items),
        reading=reading,
    )


def source_of(
    *,
    folder: Path,
    form: Form,
    found: DeepSpeedSet,
    archives: Archives,
    tensors: dict[str, Stored],
    findings: tuple[Any, ...],
    items: tuple[Item, ...],
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
            "tied": dict(found.tied),
            "tied_layers": dict(found.tied_layers),
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
        num_ranks=found.num_data_ranks * found.num_model_ranks,
        tensors=tensors,
        meta=meta,
        files=found.files,
        findings=findings,
        items=(*items, *unread_files(folder, found.files)),
        evidence=archives.evidence,
        archives=archives.files,
    )


def _number(states: Mapping[str, Any], key: str) -> int | None:
    value = states.get(key)
    return int(value) if isinstance(value, (int, float)) else None

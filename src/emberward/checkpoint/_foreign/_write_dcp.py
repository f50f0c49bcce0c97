"""Writes torch's distributed checkpoints, which ``torch.distributed.checkpoint.load`` reads; needs no torch."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._convert import OutFile, Plan, Tick
from emberward.checkpoint._foreign._dcp import MEGATRON_COMMON, MEGATRON_METADATA, METADATA
from emberward.checkpoint._foreign._emit import pickled
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._source import MOMENTS, Source
from emberward.checkpoint._foreign._stored import Stored, whole
from emberward.checkpoint._foreign._torch_write import Archive, placed_in, tensor_bytes
from emberward.checkpoint._foreign._tree import Global, Instance, Size, from_json
from emberward.checkpoint._foreign._unpickle import TORCH_DTYPES, IndexKey
from emberward.checkpoint._foreign._write_universal import torch_out
from emberward.checkpoint._format import DType
from emberward.checkpoint._storage import DISK, write_new

_METADATA_MODULE = "torch.distributed.checkpoint.metadata"
_FILE_MODULE = "torch.distributed.checkpoint.filesystem"
_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One thing in a checkpoint: its full name, the keys that lead to it, and a tensor or another value."""

    fqn: str
    path: tuple[Any, ...]
    value: Any

    @property
    def num_bytes(self) -> int:
        return tensor_bytes(self.value)


def plan_dcp(source: Source, result: Path, *, num_ranks: int, stamp: Sequence[Any]) -> Plan:
    """The conversion of a source into a distributed checkpoint of about `num_ranks` files.

    Names: ``model.NAME``, ``optim.state.NAME.MOMENT``, ``optim.state.NAME.step``, ``step``; a source that came from DCP
    gets back its own names and values.
    """
    items = _items(source)
    files = []
    for rank, own in enumerate(_dealt(items, num_ranks)):
        name = f"__{rank}_0.distcp"
        writer = _Writer(items=tuple(own))
        files.append(OutFile(name=name, num_bytes=sum(item.num_bytes for item in own), write=writer))

    megatron = source.meta.get("dcp", {}).get("megatron")
    if megatron is not None:
        common = from_json(megatron["common"], lambda name: source.tensors[name])
        files.append(torch_out(MEGATRON_COMMON, "common", common))

    def finish(temporary: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
        places = {
            fqn: (file, offset, length)
            for file, said in results.items()
            for fqn, (offset, length) in said.get("places", {}).items()
        }
        (temporary / METADATA).unlink(missing_ok=True)
        write_new(DISK, temporary / METADATA, pickled(_metadata(items, places)))
        if megatron is not None:
            (temporary / MEGATRON_METADATA).unlink(missing_ok=True)
            write_new(DISK, temporary / MEGATRON_METADATA, json.dumps(megatron["metadata"]).encode())

    about = {"form": "dcp", "sources": list(stamp), "ranks": num_ranks}
    num_tensors = sum(isinstance(item.value, Stored) for item in items)
    return Plan(result=result, files=tuple(files), about=about, finish=finish, num_tensors=num_tensors)


def _items(source: Source) -> list[_Item]:
    kept = source.meta.get("dcp", {})
    if kept:
        known = {name: (fqn, tuple(path)) for name, (fqn, path) in kept["names"].items()}
        items = [
            _Item(fqn=known[name][0], path=known[name][1], value=stored)
            for name, stored in source.tensors.items()
            if name in known
        ]
        for fqn, (path, value) in kept["values"].items():
            tree = from_json(value, lambda name: source.tensors[name])
            items.append(_Item(fqn=fqn, path=tuple(path), value=tree))
        return items
    items = []
    step = float(source.meta.get("num_updates") or source.step or 0)
    for name, stored in source.tensors.items():
        path = _path(name)
        items.append(_Item(fqn=".".join(path), path=path, value=stored))
        if name.startswith("optim/exp_avg/"):
            of_step = (*path[:-1], "step")
            scalar = whole("step", DType.F32, (), np.array(step, dtype="<f4").tobytes())
            items.append(_Item(fqn=".".join(of_step), path=of_step, value=scalar))
    items.append(_Item(fqn="step", path=("step",), value=source.step or 0))
    return items


def _path(name: str) -> tuple[str, ...]:
    kind, _, rest = name.partition("/")
    if kind == "model":
        return ("model", rest)
    moment, _, of_param = rest.partition("/")
    if kind == "optim" and moment in MOMENTS:
        return ("optim", "state", of_param, moment)
    return ("other", name.removeprefix("other/"))


def _dealt(items: Sequence[_Item], num_ranks: int) -> list[list[_Item]]:
    """The items in their order, cut where a file holds its share of the bytes."""
    share = max(1, -(-sum(item.num_bytes for item in items) // num_ranks))
    ends = itertools.accumulate(item.num_bytes for item in items)
    dealt: dict[int, list[_Item]] = {}
    for item, end in zip(items, ends, strict=True):
        dealt.setdefault(min(max(0, end - 1) // share, num_ranks - 1), []).append(item)
    return list(dealt.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes one file: a torch file for each item, one after the other; tells where each lies."""

    items: Sequence[_Item]

    def __call__(self, file: FileIO, tick: Tick) -> Mapping[str, Any]:
        places = {}
        with Reader() as reader:
            for item in self.items:
                begin = file.seek(0, 2)
                archive = Archive(file, "archive")
                archive.close(placed_in(archive, item.value, reader, tick))
                places[item.fqn] = [begin, file.seek(0, 2) - begin]
        return {"places": places}


def _new(module: str, name: str, state: Any) -> Instance:
    return Instance(of=Global(module=module, name=name), args=(), is_called=False, state=state)


def _metadata(items: Sequence[_Item], places: Mapping[str, tuple[str, int, int]]) -> Instance:
    """The ``Metadata`` of torch 2.13, as its own pickle has it."""
    entries, storage = {}, {}
    for item in items:
        is_tensor = isinstance(item.value, Stored)
        entries[item.fqn] = (
            _of_tensor(item.value) if is_tensor else _new(_METADATA_MODULE, "BytesStorageMetadata", None)
        )
        index: dict[str, Any] = {"fqn": item.fqn, "index": None}
        if is_tensor:
            index = {"fqn": item.fqn, "offset": Size(0 for _ in item.value.shape), "index": 0}
        file, offset, length = places[item.fqn]
        storage[IndexKey(_new(_METADATA_MODULE, "MetadataIndex", index))] = _new(
            _FILE_MODULE, "_StorageInfo", {"relative_path": file, "offset": offset, "length": length}
        )
    return _new(
        _METADATA_MODULE,
        "Metadata",
        {
            "state_dict_metadata": entries,
            "planner_data": {item.fqn: item.path for item in items},
            "storage_data": storage,
            "storage_meta": None,
            "version": "1.0.0",
        },
    )


def _of_tensor(stored: Stored) -> Instance:
    layout = Instance(
        of=Global(module="torch.serialization", name="_get_layout"), args=("torch.strided",), is_called=True
    )
    memory = Instance(of=Global(module=_METADATA_MODULE, name="_MEM_FORMAT_ENCODING"), args=(0,), is_called=True)
    dtype = Global(module="torch", name=_NAMES[stored.dtype])
    properties = _new(_METADATA_MODULE, "TensorProperties", (dtype, layout, False, memory, False))
    chunk = {"offsets": Size(0 for _ in stored.shape), "sizes": Size(stored.shape)}
    return _new(
        _METADATA_MODULE,
        "TensorStorageMetadata",
        {
            "properties": properties,
            "size": Size(stored.shape),
            "chunks": [_new(_METADATA_MODULE, "ChunkStorageMetadata", chunk)],
        },
    )

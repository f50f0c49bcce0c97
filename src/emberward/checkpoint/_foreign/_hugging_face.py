"""Hugging Face folders: safetensors, in one file or in shards with an index, and the model's configuration.

Layout: transformers 5.23, ``modeling_utils.py`` (``model.safetensors``, ``model.safetensors.index.json`` with
``metadata.total_size`` and ``weight_map``), ``config.json``.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._convert import OutFile, Plan, Tick, write_bytes
from emberward.checkpoint._foreign._bits import FLOATS, convert
from emberward.checkpoint._foreign._contents import unread_files
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._family import Family, family_names, family_of_model_type
from emberward.checkpoint._foreign._merge import Reading, to_ours
from emberward.checkpoint._foreign._problems import read_json, unreadable
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._source import Form, Source
from emberward.checkpoint._foreign._stored import Stored, whole
from emberward.checkpoint._foreign._write_universal import in_their_names
from emberward.checkpoint._foreign._zero import FP32
from emberward.checkpoint._format import DType, FormatProblem
from emberward.checkpoint._plain_file import open_plain
from emberward.checkpoint._safetensors import Item, header_bytes, parse_header
from emberward.checkpoint._storage import DISK, write_new
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_KEPT = ("config.json", "generation_config.json")
_TORCH_NAMES = {DType.F64: "float64", DType.F32: "float32", DType.F16: "float16", DType.BF16: "bfloat16"}


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder holds a model in safetensors."""
    return (folder / _INDEX).is_file() or (folder / _SINGLE).is_file()


def open_hugging_face(folder: Path, reading: Reading) -> Source:
    """The model in the folder. Reads headers, no tensor; its family is known by ``model_type`` unless one is given."""
    evidence = Evidence(reading.accepted)
    index = read_json(folder / _INDEX) if (folder / _INDEX).is_file() else None
    names = [_SINGLE] if index is None else _file_names(folder / _INDEX, index)
    by_file = {name: _read_headers(folder / name, evidence) for name in names}
    if index is not None:
        _require_index(folder, index, by_file, evidence)
    tensors = {(FP32, stored.name): stored for own in by_file.values() for stored in own}
    kept = {name: read_json(folder / name) for name in _KEPT if (folder / name).is_file()}
    model_type, unknown = kept.get("config.json", {}).get("model_type"), tuple[Finding, ...]()
    if reading.family is None:
        reading = replace(reading, family=family_of_model_type(str(model_type)))
        unknown = () if reading.family is not None else (_of_no_family(folder, model_type),)
    ours = to_ours(tensors, reading)
    files = tuple(folder / name for name in names)
    described = (*files, *(folder / name for name in (_INDEX, *kept)))
    return Source(
        form=Form.HUGGING_FACE,
        path=folder,
        step=None,
        num_ranks=len(names),
        tensors=ours.tensors,
        meta={"huggingface": {"family": None if reading.family is None else reading.family.where, "files": kept}},
        files=files,
        findings=(*ours.findings, *unknown),
        items=(*ours.items, *unread_files(folder, described)),
        evidence=evidence,
    )


def _of_no_family(folder: Path, model_type: object) -> Finding:
    """A notice that names stay as they are, and how they can become ours."""
    said = (
        "its config.json names no model type"
        if model_type is None
        else f"model type {model_type} is of no known family"
    )
    return Finding(
        code="K122",
        severity=Severity.NOTICE,
        kind=Kind.CONFIG,
        cause=Cause.NONE,
        certainty=Certainty.PROVED,
        message=f"{said} ({', '.join(family_names())}): tensors keep their own names",
        site=str(folder / "config.json"),
        next="give --family NAME or --family FILE.yaml; docs/convert.md shows the form",
    )


def _file_names(path: Path, index: Mapping[str, Any]) -> list[str]:
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise unreadable("an index cannot be read", where=str(path), expected="a weight_map of names to files")
    names = sorted(set(weight_map.values()))
    for name in names:
        if Path(name).name != name:
            raise unreadable("an index names a file elsewhere", where=str(path), found=name)
    return names


def _require_index(
    folder: Path, index: Mapping[str, Any], by_file: Mapping[str, Sequence[Stored]], evidence: Evidence
) -> None:
    """Raises K123 unless each file holds the tensors that the index says, and all of them its bytes."""
    for file, own in by_file.items():
        expected = {name for name, place in index["weight_map"].items() if place == file}
        found = {stored.name for stored in own}
        if missing := sorted(expected - found):
            evidence.contradict(folder / file, "it lacks a tensor that the index places in it", missing[0], "none")
        if added := sorted(found - expected):
            evidence.contradict(folder / file, "it holds a tensor that the index places elsewhere", "none", added[0])
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if total is not None:
        num_bytes = sum(stored.num_bytes for own in by_file.values() for stored in own)
        evidence.require_equal(folder / _INDEX, "total_size", total, num_bytes)


def _read_headers(path: Path, evidence: Evidence) -> list[Stored]:
    try:
        with open_plain(path) as file:
            size_bytes = file.seek(0, 2)
            file.seek(0)
            head = file.read(8)
            head += file.read(min(int.from_bytes(head, "little"), size_bytes))
        items, _ = parse_header(head)
    except (OSError, FormatProblem, MemoryError) as error:
        raise unreadable("a file is not safetensors, or it is damaged", where=str(path), found=str(error)) from error
    at = len(head)
    for item in sorted(items.values(), key=lambda item: (item.begin, item.num_bytes)):
        expected = math.prod(item.shape) * item.dtype.item_bytes
        evidence.require_equal(path, f"the bytes of {item.key}", expected, item.num_bytes)
        evidence.require_equal(path, f"where {item.key} begins", at, len(head) + item.begin)
        at += item.num_bytes
        if at > size_bytes:
            raise unreadable(
                "a file is cut", where=f"{path} tensor {item.key}", expected=f"{at} bytes", found=f"{size_bytes} bytes"
            )
    evidence.require_equal(path, "its length", f"{at} bytes", f"{size_bytes} bytes")
    return [whole(item.key, item.dtype, tuple(item.shape), path, len(head) + item.begin) for item in items.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    """Writes one safetensors file."""

    tensors: Sequence[tuple[Stored, DType]]

    def __call__(self, file: FileIO, tick: Tick) -> Mapping[str, Any]:
        items, begin = [], 0
        for stored, dtype in self.tensors:
            num_bytes = stored.num_elements * dtype.item_bytes
            items.append(Item(key=stored.name, dtype=dtype, shape=stored.shape, begin=begin, num_bytes=num_bytes))
            begin += num_bytes
        write_bytes(file, header_bytes(items, {"format": "pt"}))
        with Reader() as reader:
            for stored, dtype in self.tensors:
                for _, bits in read_tiles(reader, stored, whole_box(stored.shape)):
                    made = np.ascontiguousarray(convert(bits, stored.dtype, dtype))
                    write_bytes(file, made.reshape(-1).view(np.uint8).data)
                    tick(made.nbytes)
        return {}


def plan_hugging_face(
    source: Source,
    result: Path,
    *,
    family: Family | None,
    config: Mapping[str, Any] | None,
    beside: Mapping[str, bytes],
    max_shard_bytes: int,
    dtype: DType | None,
    stamp: Sequence[Any],
) -> Plan:
    """The conversion of a source's weights into a Hugging Face folder; moments and the rest stay behind.

    `config` is the model's ``config.json``; None takes what the source was imported with, and writes none when there
    was none. `beside` are files written as they are. A tensor larger than `max_shard_bytes` has a shard of its own.
    """
    typed = [(param.weight, _type_of(param.weight, dtype)) for param in in_their_names(source, family)]
    shards: list[list[tuple[Stored, DType]]] = [[]]
    room = max_shard_bytes
    for stored, into in typed:
        num_bytes = stored.num_elements * into.item_bytes
        if num_bytes > room and shards[-1]:
            shards.append([])
            room = max_shard_bytes
        shards[-1].append((stored, into))
        room -= num_bytes
    shards = [sorted(shard, key=lambda pair: -pair[1].item_bytes) for shard in shards]
    names = [f"model-{n + 1:05d}-of-{len(shards):05d}.safetensors" for n in range(len(shards))]
    names = [_SINGLE] if len(shards) == 1 else names
    files = tuple(
        OutFile(name=name, num_bytes=_bytes_of(shard), write=_Shard(tensors=tuple(shard)))
        for name, shard in zip(names, shards, strict=True)
    )
    written = _small_files(source, config, typed)
    if len(shards) > 1:
        weight_map = {stored.name: name for name, shard in zip(names, shards, strict=True) for stored, _ in shard}
        written[_INDEX] = {"metadata": {"total_size": _bytes_of(typed)}, "weight_map": weight_map}

    def finish(temporary: Path, _results: Mapping[str, Mapping[str, Any]]) -> None:
        for name, body in written.items():
            (temporary / name).unlink(missing_ok=True)
            write_new(DISK, temporary / name, (json.dumps(body, indent=2) + "\n").encode())
        for name, data in beside.items():
            (temporary / name).unlink(missing_ok=True)
            write_new(DISK, temporary / name, data)

    options = [str(dtype), max_shard_bytes]
    about = {"form": "huggingface", "sources": list(stamp), "options": options, "files": written}
    about |= {"beside": {name: hashlib.sha256(data).hexdigest() for name, data in beside.items()}}
    return Plan(result=result, files=files, about=about, finish=finish, num_tensors=len(typed))


def _type_of(stored: Stored, dtype: DType | None) -> DType:
    return dtype if dtype is not None and stored.dtype in FLOATS else stored.dtype


def _bytes_of(tensors: Sequence[tuple[Stored, DType]]) -> int:
    return sum(stored.num_elements * dtype.item_bytes for stored, dtype in tensors)


def _small_files(
    source: Source, config: Mapping[str, Any] | None, typed: Sequence[tuple[Stored, DType]]
) -> dict[str, Any]:
    kept = dict(source.meta.get("huggingface", {}).get("files", {}))
    if config is not None:
        kept["config.json"] = dict(config)
    floats = {into for _, into in typed if into in _TORCH_NAMES}
    if "config.json" in kept and len(floats) == 1:
        name = _TORCH_NAMES[floats.pop()]
        key = "torch_dtype" if "torch_dtype" in kept["config.json"] else "dtype"
        kept["config.json"] = {**kept["config.json"], key: name}
    return kept

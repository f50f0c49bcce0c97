"""torch's distributed checkpoints (DCP) as logical tensors.

Layout: torch 2.13, ``torch/distributed/checkpoint/metadata.py`` and ``filesystem.py``, measured: ``.metadata`` is a
pickle of a ``Metadata``; each chunk of a tensor, and each value that is no tensor, is one torch file within a
``.distcp`` file, at the offset and of the length that ``storage_data`` says.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._bits import to_floats
from emberward.checkpoint._foreign._contents import Held, Item, unread_files
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._merge import Reading
from emberward.checkpoint._foreign._pickle_bounds import MAX_BYTES
from emberward.checkpoint._foreign._problems import read_json, unreadable
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._source import Form, Source, model_name, moment_name, require_whole
from emberward.checkpoint._foreign._stored import Stored, join
from emberward.checkpoint._foreign._torch_file import TorchFile, open_torch_file
from emberward.checkpoint._foreign._tree import Global, Instance, TensorRef, to_json
from emberward.checkpoint._foreign._unpickle import TORCH_DTYPES, key_instance, unpickle
from emberward.checkpoint._format import DType

METADATA = ".metadata"
_MOMENT = re.compile(r"(?:optim\w*\.)?state\.(.+)\.(exp_avg|exp_avg_sq)")
_STEP = re.compile(r"(?:optim\w*\.)?state\..+\.step")
_COUNTS = ("step", "global_step", "train_state.step", "iteration")
MEGATRON_METADATA, MEGATRON_COMMON = "metadata.json", "common.pt"
"""Megatron-Core 0.16 (``dist_checkpointing``): what else a ``torch_dist`` folder holds. Sharded tensors lie as DCP's;
layers of one kind are one tensor with a dim in front, and values that no rank shards are in ``common.pt``."""
_MEGATRON_MOMENT = re.compile(r"optimizer\.state\.(exp_avg|exp_avg_sq)\.(.+)")


def is_dcp(folder: Path) -> bool:
    """Whether a folder holds a distributed checkpoint."""
    return (folder / METADATA).is_file()


def open_dcp(folder: Path, reading: Reading) -> Source:
    """The distributed checkpoint in the folder. Reads its metadata and small values, no tensor. Raises K110, K111."""
    tree, chunks = _metadata(folder / METADATA), _Chunks(folder, Evidence(reading.accepted))
    try:
        state = tree.state
        entries, places, paths = state["state_dict_metadata"], _places(state["storage_data"]), state.get("planner_data")
        tensors = {fqn: _tensor(chunks, fqn, entry, places) for fqn, entry in entries.items() if _is_tensor(entry)}
        chunks.require_filled(state["storage_data"].values())
        _require_named(folder, entries, places, chunks.evidence)
        values = {fqn: _value(chunks, fqn, places) for fqn, entry in entries.items() if not _is_tensor(entry)}
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise unreadable(
            "a checkpoint's metadata is not as torch writes it",
            where=str(folder / METADATA),
            expected="a Metadata of torch.distributed.checkpoint",
            found=f"{type(error).__name__}: {error}",
        ) from error
    megatron = _megatron(folder)
    names = {fqn: _our_name(fqn, tensors) if megatron is None else _name_of_megatron(fqn) for fqn in tensors}
    ours = {names[fqn]: stored.named(names[fqn]) for fqn, stored in tensors.items()}
    require_whole(ours, folder)

    def keep(stored: Stored) -> str:
        name = "other/dcp-value" + stored.name
        ours[name] = stored.named(name)
        return name

    described: tuple[Path, ...] = (folder / METADATA,)
    common: Any = None
    if megatron is not None:
        described += (folder / MEGATRON_METADATA, folder / MEGATRON_COMMON)
        file = open_torch_file(folder / MEGATRON_COMMON, chunks.evidence)
        chunks.files.append(file)
        common = file.placed(file.tree, "/common")
    known = paths if isinstance(paths, dict) else {}
    num_updates = _num_updates(tensors)
    meta: dict[str, Any] = {
        "dcp": {
            "names": {names[fqn]: [fqn, list(known.get(fqn, (fqn,)))] for fqn in tensors},
            "values": {fqn: [list(known.get(fqn, (fqn,))), to_json(value, keep)] for fqn, value in values.items()},
        },
        "num_updates": num_updates,
    }
    if megatron is not None:
        meta["dcp"]["megatron"] = {"metadata": megatron, "common": to_json(common, keep)}
        values = {**values, **(common if isinstance(common, dict) else {})}
    files = (*described, *sorted({folder / place["relative_path"] for place in places.values()}))
    step = next((int(values[key]) for key in _COUNTS if isinstance(values.get(key), int)), None)
    return Source(
        form=Form.DCP,
        path=folder,
        step=step if step is not None else num_updates,
        num_ranks=len({place["relative_path"] for place in places.values()}),
        tensors=ours,
        meta=meta,
        files=files,
        items=(*_items(names, values), *unread_files(folder, files)),
        evidence=chunks.evidence,
        archives=tuple(chunks.files),
    )


def _megatron(folder: Path) -> dict[str, Any] | None:
    """What Megatron-Core says of its folder; None for one of plain DCP. Raises K110 when its common values lack."""
    path = folder / MEGATRON_METADATA
    found = read_json(path) if path.is_file() else {}
    if found.get("sharded_backend") != "torch_dist":
        return None
    if not (folder / MEGATRON_COMMON).is_file():
        raise unreadable("a file is missing", where=str(folder), expected=MEGATRON_COMMON, found="no such file")
    return found


def _name_of_megatron(fqn: str) -> str:
    moment = _MEGATRON_MOMENT.fullmatch(fqn)
    if moment is not None:
        return moment_name(moment[1], moment[2])
    return f"other/dcp/{fqn}" if fqn.startswith(("optimizer.", "rng_state")) else model_name(fqn)


def _metadata(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        found = f"{path.stat().st_size} bytes"
        raise unreadable("a pickle is too large", where=str(path), expected=f"at most {MAX_BYTES} bytes", found=found)
    return unpickle(path.read_bytes(), str(path))


class _Chunks:
    """The torch files that lie one after the other in the checkpoint's data files."""

    def __init__(self, folder: Path, evidence: Evidence) -> None:
        self.folder, self.evidence = folder, evidence
        self.files: list[TorchFile] = []

    def open(self, place: Mapping[str, Any]) -> TorchFile:
        path = self.folder / place["relative_path"]
        if path.parent != self.folder:
            raise unreadable("the metadata names a file elsewhere", where=str(self.folder / METADATA), found=str(path))
        self.files.append(open_torch_file(path, self.evidence, begin=place["offset"], length=place["length"]))
        return self.files[-1]

    def require_filled(self, infos: Iterable[Instance]) -> None:
        """Raises K123 unless each data file is as long as the chunks in it, which do not overlap."""
        ranges: dict[Path, list[tuple[int, int]]] = {}
        for info in infos:
            place = info.state
            begin = int(place["offset"])
            ranges.setdefault(self.folder / place["relative_path"], []).append((begin, begin + int(place["length"])))
        for path, own in ranges.items():
            at = 0
            for begin, end in sorted(set(own)):
                self.evidence.require_equal(path, "where a chunk begins", at, begin)
                at = end
            if path.is_file():
                self.evidence.require_equal(path, "its length", f"{at} bytes", f"{path.stat().st_size} bytes")


def _require_named(folder: Path, entries: Mapping[str, Any], places: Mapping[Any, Any], evidence: Evidence) -> None:
    """Raises K123 when data lies under a name that the metadata does not describe."""
    for fqn, _ in places:
        if fqn not in entries:
            what = "it places data that it does not describe"
            evidence.contradict(folder / METADATA, what, "a name of the state dict", fqn)


def _items(names: Mapping[str, str], values: Iterable[str]) -> Iterator[Item]:
    for fqn, name in names.items():
        kind = name.partition("/")[0]
        held = {"model": Held.WEIGHT, "optim": Held.MOMENT}.get(kind, Held.TENSOR)
        yield Item(name=fqn, held=held, ours=(name,))
    for fqn in values:
        yield Item(name=fqn, held=Held.VALUE, ours=(f"meta of the save: dcp/values/{fqn}",))


def _is_tensor(entry: Instance) -> bool:
    return entry.of.name == "TensorStorageMetadata"


def _places(storage: Mapping[Any, Instance]) -> dict[tuple[str, tuple[int, ...] | None], Mapping[str, Any]]:
    """By name and offset: the file, offset and length in which a chunk lies."""
    places = {}
    for key, info in storage.items():
        index = key_instance(key)
        assert index is not None, "storage data is keyed by MetadataIndex"
        offset = index.state.get("offset")
        places[index.state["fqn"], None if offset is None else tuple(offset)] = info.state
    return places


def _tensor(chunks: _Chunks, fqn: str, entry: Instance, places: Mapping[Any, Mapping[str, Any]]) -> Stored:
    folder = chunks.folder
    dtype, shape = _dtype(entry, folder, fqn), tuple(entry.state["size"])
    parts = []
    for chunk in entry.state["chunks"]:
        offset, sizes = tuple(chunk.state["offsets"]), tuple(chunk.state["sizes"])
        if 0 in sizes:
            continue
        stored = _chunk(chunks, fqn, _place(places, folder, fqn, offset))
        if stored.dtype is not dtype or stored.shape != sizes:
            path = folder / _place(places, folder, fqn, offset)["relative_path"]
            raise unreadable(
                "a chunk is not what the metadata says",
                where=f"{path} tensor {fqn}",
                expected=f"{dtype} {sizes}",
                found=f"{stored.dtype} {stored.shape}",
            )
        parts.append((offset, stored))
    if not parts:
        return Stored(name=fqn, dtype=dtype, shape=shape, regions=())
    return join(fqn, shape, parts)


def _dtype(entry: Instance, folder: Path, fqn: str) -> DType:
    named = entry.state["properties"].state[0]
    dtype = TORCH_DTYPES.get(named.name) if isinstance(named, Global) else None
    if dtype is None:
        raise unreadable("a tensor's number type is not known", where=f"{folder} tensor {fqn}", found=str(named))
    return dtype


def _place(
    places: Mapping[Any, Mapping[str, Any]], folder: Path, fqn: str, offset: tuple[int, ...]
) -> Mapping[str, Any]:
    for key in ((fqn, offset), (fqn, None)):
        if key in places:
            return places[key]
    raise unreadable(
        "a chunk of a tensor lies nowhere",
        where=f"{folder} tensor {fqn}",
        expected=f"a place of {offset}",
        found="none",
    )


def _chunk(chunks: _Chunks, fqn: str, place: Mapping[str, Any]) -> Stored:
    file = chunks.open(place)
    if not isinstance(file.tree, TensorRef):
        raise unreadable("a chunk holds no tensor", where=f"{file.path} tensor {fqn}", found=type(file.tree).__name__)
    return file.stored(file.tree, fqn)


def _value(chunks: _Chunks, fqn: str, places: Mapping[Any, Mapping[str, Any]]) -> Any:
    file = chunks.open(_place(places, chunks.folder, fqn, ()))
    return file.placed(file.tree, f"/{fqn}")


def _our_name(fqn: str, tensors: Mapping[str, Stored]) -> str:
    moment = _MOMENT.fullmatch(fqn)
    if moment is not None:
        return moment_name(moment[2], moment[1])
    if fqn.startswith("model."):
        return model_name(fqn.removeprefix("model."))
    if any(f"{top}state.{fqn}.exp_avg" in tensors for top in ("", "optim.", "optimizer.")):
        return model_name(fqn)
    return f"other/dcp/{fqn}"


def _num_updates(tensors: Mapping[str, Stored]) -> int | None:
    for fqn, stored in tensors.items():
        if _STEP.fullmatch(fqn) and stored.num_elements == 1:
            with Reader() as reader:
                return int(to_floats(reader.array(stored), stored.dtype).reshape(-1)[0])
    return None

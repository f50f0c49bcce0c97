"""torch's distributed checkpoints (DCP) as logical tensors.

Layout: torch 2.13, ``torch/distributed/checkpoint/metadata.py`` and ``filesystem.py``, measured: ``.metadata`` is a
pickle of a ``Metadata``; each chunk of a tensor, and each value that is no tensor, is one torch file within a
``.distcp`` file, at the offset and of the length that ``storage_data`` says.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._bits import to_floats
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._source import Form, Source, model_name, moment_name, require_whole
from emberward.checkpoint._foreign._stored import Stored, join
from emberward.checkpoint._foreign._torch_file import open_torch_file
from emberward.checkpoint._foreign._tree import Global, Instance, TensorRef, to_json
from emberward.checkpoint._foreign._unpickle import TORCH_DTYPES, key_instance, unpickle
from emberward.checkpoint._format import DType

METADATA = ".metadata"
_MOMENT = re.compile(r"(?:optim\w*\.)?state\.(.+)\.(exp_avg|exp_avg_sq)")
_STEP = re.compile(r"(?:optim\w*\.)?state\..+\.step")
_COUNTS = ("step", "global_step", "train_state.step")


def is_dcp(folder: Path) -> bool:
    """Whether a folder holds a distributed checkpoint."""
    return (folder / METADATA).is_file()


def open_dcp(folder: Path) -> Source:
    """The distributed checkpoint in the folder. Reads its metadata and small values, no tensor. Raises K110, K111."""
    tree = unpickle((folder / METADATA).read_bytes(), str(folder / METADATA))
    try:
        state = tree.state
        entries, places, paths = state["state_dict_metadata"], _places(state["storage_data"]), state.get("planner_data")
        tensors = {fqn: _tensor(folder, fqn, entry, places) for fqn, entry in entries.items() if _is_tensor(entry)}
        values = {fqn: _value(folder, fqn, places) for fqn, entry in entries.items() if not _is_tensor(entry)}
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise unreadable(
            "a checkpoint's metadata is not as torch writes it",
            where=str(folder / METADATA),
            expected="a Metadata of torch.distributed.checkpoint",
            found=f"{type(error).__name__}: {error}",
        ) from error
    names = {fqn: _our_name(fqn, tensors) for fqn in tensors}
    ours = {names[fqn]: stored.named(names[fqn]) for fqn, stored in tensors.items()}
    require_whole(ours, folder)

    def keep(stored: Stored) -> str:
        name = "other/dcp-value" + stored.name
        ours[name] = stored.named(name)
        return name

    known = paths if isinstance(paths, dict) else {}
    num_updates = _num_updates(tensors)
    meta = {
        "dcp": {
            "names": {names[fqn]: [fqn, list(known.get(fqn, (fqn,)))] for fqn in tensors},
            "values": {fqn: [list(known.get(fqn, (fqn,))), to_json(value, keep)] for fqn, value in values.items()},
        },
        "num_updates": num_updates,
    }
    step = next((int(values[key]) for key in _COUNTS if isinstance(values.get(key), int)), None)
    return Source(
        form=Form.DCP,
        path=folder,
        step=step if step is not None else num_updates,
        num_ranks=len({place["relative_path"] for place in places.values()}),
        tensors=ours,
        meta=meta,
        files=(folder / METADATA, *sorted({folder / place["relative_path"] for place in places.values()})),
    )


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


def _tensor(folder: Path, fqn: str, entry: Instance, places: Mapping[Any, Mapping[str, Any]]) -> Stored:
    dtype, shape = _dtype(entry, folder, fqn), tuple(entry.state["size"])
    parts = []
    for chunk in entry.state["chunks"]:
        offset, sizes = tuple(chunk.state["offsets"]), tuple(chunk.state["sizes"])
        if 0 in sizes:
            continue
        stored = _chunk(folder, fqn, _place(places, folder, fqn, offset))
        if stored.dtype is not dtype or stored.shape != sizes:
            raise unreadable(
                "a chunk is not what the metadata says",
                where=f"{folder} tensor {fqn}",
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


def _chunk(folder: Path, fqn: str, place: Mapping[str, Any]) -> Stored:
    file = open_torch_file(folder / place["relative_path"], begin=place["offset"], length=place["length"])
    if not isinstance(file.tree, TensorRef):
        raise unreadable("a chunk holds no tensor", where=f"{file.path} tensor {fqn}", found=type(file.tree).__name__)
    return file.stored(file.tree, fqn)


def _value(folder: Path, fqn: str, places: Mapping[Any, Mapping[str, Any]]) -> Any:
    place = _place(places, folder, fqn, ())
    file = open_torch_file(folder / place["relative_path"], begin=place["offset"], length=place["length"])
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

"""One tensor of a save or of a running job, whole, with what a person asks about it. Torch-free."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint._describe import TensorInfo, tensor_info
from emberward.checkpoint._digest import partial_digest
from emberward.checkpoint._format import DType
from emberward.checkpoint._part import Part
from emberward.checkpoint._problems import near_misses
from emberward.checkpoint._reader import read_manifest, read_parts
from emberward.findings import ConfigError

_AS_FLOAT = {DType.F64: "<f8", DType.F32: "<f4", DType.F16: "<f2"}
_AS_INTEGER = {"I": "<i", "U": "<u"}
_SHOWN_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedTensor:
    """A tensor of a save, None for one of a running job. `values` are whole, as float64; statistics are of the finite
    ones, None without any."""

    save: Path | None
    step: int
    world_size: int
    info: TensorInfo
    values: NDArray[np.float64]

    def to_json(self, *, num_values: int) -> dict[str, Any]:
        """Everything but the values, of which the first `num_values`, in row-major order."""
        finite = self.values[np.isfinite(self.values)]
        first = self.values.reshape(-1)[:num_values]
        return {
            "save": None if self.save is None else str(self.save),
            "step": self.step,
            "world_size": self.world_size,
            "tensor": self.info.to_json(),
            "num_elements": int(self.values.size),
            "num_not_finite": int(self.values.size - finite.size),
            "num_zeros": int((self.values == 0).sum()),
            "norm": float(np.linalg.norm(finite)),
            "min": float(finite.min()) if finite.size else None,
            "max": float(finite.max()) if finite.size else None,
            "mean": float(finite.mean()) if finite.size else None,
            "values": [float(value) if np.isfinite(value) else str(value) for value in first],
        }


def inspect_tensor(checkpoint: Path, name: str) -> InspectedTensor:
    """The tensor `name` of the save, every byte that is read proved by its checksum. Blocks.

    Raises ConfigError K102 with the nearest names when the save holds no such tensor or its type holds no real
    numbers, K101 when a byte is not as it was saved. Memory: three times the tensor.
    """
    manifest = read_manifest(checkpoint)
    entry = manifest.tensors.get(name)
    if entry is None:
        names = sorted(manifest.tensors)
        raise ConfigError(
            f"the save has no tensor {name}",
            code="K102",
            where=str(checkpoint),
            expected="a name such as " + ", ".join(names[:_SHOWN_NAMES]),
            found=name,
            next=near_misses(name, names) or f"emberward checkpoint show {checkpoint} lists the names",
        )
    part = Part(
        name=name,
        dtype=entry.dtype,
        global_shape=entry.shape,
        box=tuple((0, length) for length in entry.shape),
        bits=np.zeros(entry.shape, dtype=f"<u{entry.dtype.item_bytes}"),
    )
    read_parts(checkpoint, manifest, [part])
    return InspectedTensor(
        save=checkpoint,
        step=manifest.step,
        world_size=manifest.world_size,
        info=tensor_info(name, entry),
        values=_floats(part, str(checkpoint)),
    )


def assemble_tensor(parts: Sequence[tuple[str, Part]], *, step: int, world_size: int) -> InspectedTensor | None:
    """The tensor of which each part is held by the one named beside it; None until they tile it."""
    first = parts[0][1]
    if sum(part.bits.size for _, part in parts) < math.prod(first.global_shape):
        return None
    whole = replace(
        first,
        box=tuple((0, length) for length in first.global_shape),
        bits=np.zeros(first.global_shape, dtype=first.bits.dtype),
    )
    for _, part in parts:
        whole.bits[tuple(slice(start, stop) for start, stop in part.box)] = part.bits
    return InspectedTensor(
        save=None,
        step=step,
        world_size=world_size,
        info=TensorInfo(
            name=first.name,
            dtype=first.dtype.value,
            shape=first.global_shape,
            digest=f"{partial_digest(whole.bits, whole.box):016x}",
            num_bytes=whole.bits.nbytes,
            pieces=tuple((holder, part.box) for holder, part in parts),
        ),
        values=_floats(whole, holder=parts[0][0]),
    )


def _floats(part: Part, holder: str) -> NDArray[np.float64]:
    dtype, bits = part.dtype, part.bits
    if dtype in _AS_FLOAT:
        return np.asarray(bits.view(_AS_FLOAT[dtype]), dtype=np.float64)
    if dtype is DType.BF16:
        return np.asarray((bits.astype("<u4") << np.uint32(16)).view("<f4"), dtype=np.float64)
    if dtype is DType.BOOL:
        return np.asarray(bits, dtype=np.float64)
    if dtype.value[0] in _AS_INTEGER:
        return np.asarray(bits.view(f"{_AS_INTEGER[dtype.value[0]]}{dtype.item_bytes}"), dtype=np.float64)
    raise ConfigError(
        f"values of type {dtype.value} cannot be shown",
        code="K102",
        where=holder,
        expected="a tensor of real numbers of 16 bits or more, integers or truth values",
        found=f"{part.name} of type {dtype.value}",
        next=f"emberward checkpoint show {holder}",
    )

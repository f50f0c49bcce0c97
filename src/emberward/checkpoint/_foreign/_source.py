"""A checkpoint of any form, as logical tensors and what belongs to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._contents import Item, require_accounted
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._foreign._torch_file import TorchFile
from emberward.findings import Finding

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Adam's moments, by the names that torch, DeepSpeed and we give them."""


class Form(StrEnum):
    """The forms of checkpoint that are read and written."""

    EMBERWARD = "emberward"
    DEEPSPEED = "deepspeed"
    UNIVERSAL = "deepspeed-universal"
    ZERO_1 = "deepspeed-zero1"
    ZERO_2 = "deepspeed-zero2"
    ZERO_3 = "deepspeed-zero3"
    DCP = "dcp"
    HUGGING_FACE = "huggingface"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A checkpoint that can be read tensor by tensor.

    Names are ours: ``model/NAME`` for the full-precision weights, ``optim/MOMENT/NAME`` for the moments, ``other/...``
    for the rest. `step` is None when the files do not say. `meta` is what is not a tensor, as JSON. `num_ranks` wrote
    it. `items` are all that was found and what became of it; `evidence` is what the files prove, to be finished once
    the tensors were read; `archives` are the torch files.
    """

    form: Form
    path: Path
    step: int | None
    num_ranks: int
    tensors: Mapping[str, Stored]
    meta: Mapping[str, Any]
    files: tuple[Path, ...]
    findings: tuple[Finding, ...] = ()
    items: tuple[Item, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    archives: tuple[TorchFile, ...] = ()

    def require_accounted(self) -> None:
        """Raises RuntimeError when something that the files hold is neither imported nor named as left out."""
        require_accounted(self.archives, self.tensors, self.items)

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(stored.num_bytes for stored in self.tensors.values())


def require_whole(tensors: Mapping[str, Stored], where: Path) -> None:
    """Raises K110 when an element of some tensor is in no file: a rank's file is missing."""
    for name, stored in tensors.items():
        if stored.num_placed != stored.num_elements:
            raise unreadable(
                "not every element of a tensor is in the files",
                where=f"{where} tensor {name}",
                expected=f"{stored.num_elements} elements of shape {stored.shape}",
                found=f"{stored.num_placed} elements",
                next="check that the files of all ranks are there",
            )


def model_name(name: str) -> str:
    """Our name of a full-precision weight."""
    return f"model/{name}"


def moment_name(moment: str, name: str) -> str:
    """Our name of a moment."""
    return f"optim/{moment}/{name}"

"""Whether what the ranks wrote makes up each tensor exactly once."""

import math
from collections.abc import Sequence

from emberward.checkpoint._boxes import find_overlap, volume
from emberward.checkpoint._digest import add_digests
from emberward.checkpoint._format import TensorEntry
from emberward.checkpoint._writer import RankIndex
from emberward.findings import EmberwardError


def merge_tensors(indexes: Sequence[RankIndex]) -> dict[str, TensorEntry]:
    """The tensors of all ranks by name, digests added. Raises K103 when the pieces of one do not tile it exactly."""
    shares: dict[str, list[tuple[int, TensorEntry]]] = {}
    for index in indexes:
        for name, entry in index.tensors.items():
            shares.setdefault(name, []).append((index.rank, entry))
    merged = {}
    for name, given in sorted(shares.items()):
        first_rank, first = given[0]
        for rank, entry in given:
            if (entry.dtype, entry.shape) != (first.dtype, first.shape):
                raise _not_one_tensor(
                    f"ranks {first_rank} and {rank} disagree about tensor {name}",
                    expected=f"{first.dtype} {first.shape}",
                    found=f"{entry.dtype} {entry.shape}",
                    ranks=(first_rank, rank),
                )
        placed = [(rank, piece) for rank, entry in given for piece in entry.pieces]
        overlap = find_overlap([piece.box for _, piece in placed])
        if overlap is not None:
            (a_rank, a), (b_rank, b) = placed[overlap[0]], placed[overlap[1]]
            raise _not_one_tensor(
                f"ranks {a_rank} and {b_rank} both give a part of tensor {name}",
                expected="each element from one rank",
                found=f"{a.key} and {b.key}",
                ranks=(a_rank, b_rank),
            )
        num_given = sum(volume(piece.box) for _, piece in placed)
        if num_given != math.prod(first.shape):
            raise _not_one_tensor(
                f"no rank gives a part of tensor {name}",
                expected=f"{math.prod(first.shape)} elements of shape {first.shape}",
                found=f"{num_given} elements: " + ", ".join(piece.key for _, piece in placed[:8]),
                ranks=(),
            )
        merged[name] = TensorEntry(
            dtype=first.dtype,
            shape=first.shape,
            digest=add_digests(entry.digest for _, entry in given),
            pieces=tuple(piece for _, piece in placed),
        )
    return merged


def _not_one_tensor(what: str, *, expected: str, found: str, ranks: tuple[int, ...]) -> EmberwardError:
    return EmberwardError(
        what,
        code="K103",
        expected=expected,
        found=found,
        next="this is a mistake in what the ranks were asked to save; the saves before it are untouched",
        ranks=ranks,
    )

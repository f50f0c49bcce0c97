"""Reads a save back, every byte of it, and names what is not as it was written."""

from collections.abc import Callable
from io import FileIO
from pathlib import Path

from emberward.checkpoint._boxes import volume
from emberward.checkpoint._crc import BLOCK_BYTES, crc32
from emberward.checkpoint._digest import add_digests, partial_digest
from emberward.checkpoint._format import FileEntry, FormatProblem, Manifest, Piece
from emberward.checkpoint._probe import read_probe
from emberward.checkpoint._problems import damaged
from emberward.checkpoint._reader import open_data_file, read_blocks, read_exactly, read_manifest
from emberward.checkpoint._safetensors import parse_header
from emberward.findings import EmberwardError, Finding


def verify(checkpoint: Path, *, told: Callable[[int, int], None] = lambda done, total: None) -> tuple[Finding, ...]:
    """An error finding for each file or tensor that is not as saved; empty when every byte is.

    `told` is called with the bytes that are read and the bytes that there are, after each piece of a tensor.

    Reads all data; blocks; needs no torch; memory: one block of 1 MiB. Each data file is read to its end whatever is
    found in another, and a damaged file is named once for each of its tensors that is hurt.
    """
    try:
        manifest = read_manifest(checkpoint)
    except EmberwardError as error:
        return (error.to_finding(),)
    shares: dict[str, list[int]] = {name: [] for name in manifest.tensors}
    findings: list[Finding] = []
    done, total = 0, sum(entry.size_bytes for entry in manifest.files)
    try:
        read_probe(checkpoint)
    except EmberwardError as error:
        findings.append(error.to_finding())
    for entry in manifest.files:
        try:
            with open_data_file(checkpoint, entry.name, entry) as file:
                findings += _check_header(checkpoint, file, entry, manifest)
                for name, piece in _pieces_of(manifest, entry.name):
                    findings += _check_piece(checkpoint, file, manifest, name, piece, shares[name])
                    done += len(piece.crc32) * BLOCK_BYTES
                    told(min(done, total), total)
        except EmberwardError as error:
            findings.append(error.to_finding())
    return tuple(findings) if findings else digest_findings(checkpoint, manifest, _sums(shares))


def verify_rest(
    checkpoint: Path, manifest: Manifest, *, is_loaded: Callable[[str], bool], share: int, num_shares: int
) -> tuple[Finding, ...]:
    """An error finding for each damage that a load of the tensors for which `is_loaded` holds does not meet.

    Headers, and the tensors left out, of the files number `share`, `share` + `num_shares`, ...: ranks that each take
    a share and together load the rest have read every byte. Reads files; blocks; does not communicate.
    """
    findings: list[Finding] = []
    for entry in manifest.files[share::num_shares]:
        try:
            with open_data_file(checkpoint, entry.name, entry) as file:
                findings += _check_header(checkpoint, file, entry, manifest)
                for name, piece in _pieces_of(manifest, entry.name):
                    if not is_loaded(name):
                        findings += _check_piece(checkpoint, file, manifest, name, piece, [])
        except EmberwardError as error:
            findings.append(error.to_finding())
    return tuple(findings)


def digest_findings(checkpoint: Path, manifest: Manifest, digests: dict[str, int]) -> tuple[Finding, ...]:
    """An error finding for each tensor whose digest is not the one that was saved; pure.

    `digests` are whole ones: shares of all owners added. Tensors that it leaves out are not judged.
    """
    return tuple(
        damaged(
            checkpoint,
            f"the values of tensor {name} are not those that were saved",
            where=f"tensor {name}",
            expected=f"digest {manifest.tensors[name].digest:016x}",
            found=f"digest {digest:016x}",
        ).to_finding()
        for name, digest in digests.items()
        if digest != manifest.tensors[name].digest
    )


def _sums(shares: dict[str, list[int]]) -> dict[str, int]:
    return {name: add_digests(values) for name, values in shares.items()}


def _pieces_of(manifest: Manifest, file: str) -> list[tuple[str, Piece]]:
    pieces = [(name, piece) for name, entry in manifest.tensors.items() for piece in entry.pieces if piece.file == file]
    return sorted(pieces, key=lambda named: named[1].offset)


def require_headers(checkpoint: Path, manifest: Manifest) -> None:
    """Raises K101 for the first data file that is missing, cut or has a header that is not the saved one.

    What a conversion reads of the data itself is proved block by block, so that with this nothing damaged goes over.
    """
    for entry in manifest.files:
        with open_data_file(checkpoint, entry.name, entry) as file:
            damage = _header_damage(checkpoint, file, entry, manifest)
        if damage is not None:
            raise damage


def _check_header(checkpoint: Path, file: FileIO, entry: FileEntry, manifest: Manifest) -> list[Finding]:
    damage = _header_damage(checkpoint, file, entry, manifest)
    return [] if damage is None else [damage.to_finding()]


def _header_damage(checkpoint: Path, file: FileIO, entry: FileEntry, manifest: Manifest) -> EmberwardError | None:
    header = bytearray(entry.header_bytes)
    read_exactly(file, 0, memoryview(header))
    crc, found = crc32(bytes(header)), ""
    if crc != entry.header_crc32:
        found = f"CRC-32 {crc:08x}"
        try:
            found += f", metadata {parse_header(bytes(header))[1]}"
        except FormatProblem as error:
            found += f", {error}"
    else:
        items, _ = parse_header(bytes(header))
        placed = {key: (entry.header_bytes + item.begin, item.num_bytes) for key, item in items.items()}
        listed = {
            piece.key: (piece.offset, volume(piece.box) * manifest.tensors[name].dtype.item_bytes)
            for name, piece in _pieces_of(manifest, entry.name)
        }
        if placed == listed:
            return None
        found = f"a header whose keys or places differ from the manifest's in {sorted(placed.items() ^ listed.items())}"
    where = f"{entry.name} header"
    expected = f"CRC-32 {entry.header_crc32:08x} of step {manifest.step}"
    return damaged(checkpoint, "a data file is not the one that was saved", where=where, expected=expected, found=found)


def _check_piece(
    checkpoint: Path, file: FileIO, manifest: Manifest, name: str, piece: Piece, shares: list[int]
) -> list[Finding]:
    """The first damage of the piece; its digest shares are added to `shares`."""
    try:
        for box, bits in read_blocks(checkpoint, file, piece, manifest.tensors[name].dtype.item_bytes, piece.box):
            shares.append(partial_digest(bits, box))
    except EmberwardError as error:
        return [error.to_finding()]
    return []

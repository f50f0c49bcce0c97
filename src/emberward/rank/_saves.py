"""Which save a run goes on from, and the proof that what was loaded is what was saved."""

from pathlib import Path

import torch
import torch.distributed as dist

from emberward import checkpoint
from emberward.checkpoint import Manifest
from emberward.engine import Engine
from emberward.findings import Cause, EmberwardError, Severity
from emberward.report import RunFolder, append_line

_WORD = 1 << 64
_HALF = 1 << 63


def newest_save(folder: RunFolder, *, is_writer: bool) -> Path | None:
    """The newest whole save of the run; None when it never saved. What was passed over goes to findings.jsonl.

    Raises EmberwardError K101 when there were saves and none is whole: starting anew in silence would lose the run.
    """
    latest = checkpoint.find_latest(folder.checkpoints)
    if is_writer:
        for finding in latest.findings:
            append_line(folder.findings, finding.to_json())
    errors = [finding for finding in latest.findings if finding.severity is Severity.ERROR]
    if latest.path is None and errors:
        raise EmberwardError(
            "no save of this run is whole",
            code="K101",
            where=str(folder.checkpoints),
            expected="one whole save",
            found="; ".join(finding.message for finding in errors),
            next="restore a save, or start anew with --fresh",
            cause=Cause.CORRUPT_FILE,
        )
    return latest.path


def require_saved_values(path: Path, manifest: Manifest, engine: Engine) -> None:
    """Raises EmberwardError K101 on every rank unless each tensor's digest, over all ranks, is the saved one.

    The digest does not depend on the layout (``docs/checkpoints.md``), so that a resume on another layout is proved as
    well. All ranks must call; one all-reduce of one int64 a tensor; blocks.
    """
    shares = checkpoint.digest_of(engine.shards(owned_only=True))
    names = sorted(manifest.tensors)
    # Shares add up modulo 2^64, as int64 does when it overflows; torch has no sum of uint64 on every backend.
    words = [shares.get(name, 0) for name in names]
    signed = torch.tensor([word - _WORD if word >= _HALF else word for word in words], dtype=torch.int64)
    totals = signed.to(engine.world.device)
    dist.all_reduce(totals, group=engine.world.channels["world"].handle)
    digests = {name: int(word) % _WORD for name, word in zip(names, totals.tolist(), strict=True)}
    findings = checkpoint.digest_findings(path, manifest, digests)
    if findings:
        raise EmberwardError(
            f"{len(findings)} tensors are not what was saved",
            code="K101",
            where=str(path),
            expected="the digests of its manifest",
            found=findings[0].message,
            next="emberward checkpoint verify " + str(path),
            cause=Cause.CORRUPT_FILE,
        )

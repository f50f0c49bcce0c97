"""Packs a run for a ticket: what tells about an incident, bounded in size, without secrets."""

import contextlib
import hashlib
import io
import json
import os
import re
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emberward.report._folder import RunFolder
from emberward.report._read import read_json, read_lines
from emberward.report._redact import Redactor
from emberward.sources.dumps import archive_kind, bundled, read_rank_ring, unpack
from emberward.sources.ring import find_rings

MAX_FILE_BYTES = 1 << 20
"""Of a longer file its end is packed."""
MAX_FILES = 2000
MAX_BYTES = 256 << 20
"""Of the texts together; what has no room is left out and named."""
_COMMON_PEOPLE = frozenset({"root", "user", "nobody", "ubuntu", "admin"})
_WHOLE = (
    "config.resolved.yaml", "command.json", "findings.jsonl", "attempts.jsonl", "summary.json", "progress.json",
    "certificate.json", "proof.json", "preflight.json", "metrics.jsonl", "evals.jsonl", "detours.json",
    "logged.jsonl", "supervisor.json", "acknowledged.jsonl", "doctor.json", "doctor.txt",
)  # fmt: skip
_README = """A run of Emberward, packed for a ticket. The bundle is read as it is, or unpacked:

    emberward report FILE.tar.gz                     what happened, with the card of the worst finding
    emberward report FILE.tar.gz --html page.html    the page of the run, as one file
    emberward explain FILE.tar.gz                    the verdict, from the calls of each rank

findings.jsonl has what was found, attempts.jsonl each start and end, logs/ the ends of the ranks' logs,
events/attempt-N/ the last calls of each rank in the form of torch's flight recorder. Secrets, people, hosts and the
upper parts of paths are taken out: MANIFEST.json counts them. Data, checkpoints, the program's text and environments
are not packed.
"""
_RUN_ID = re.compile(r"[A-Za-z0-9_][\w.\-]{0,119}")
_FOLDERS = ("logs", "failures", "ranks", "inspections", "hosts-before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle that was written: what is in it (name, bytes) and how often each sort of thing was taken out."""

    path: Path
    files: tuple[tuple[str, int], ...]
    hidden: dict[str, int]
    left_out: tuple[str, ...]


def write_bundle(folder: RunFolder, path: Path, *, user: str | None = None, keep_hosts: bool = False) -> Bundle:
    """The bundle of a run, written whole or not at all. Raises OSError when `path` cannot be written.

    A gzipped tar with one folder: the run's diaries, findings, configuration, the ends of its logs and metrics, the
    last calls of each rank as JSON, and ``MANIFEST.json`` with sizes, SHA-256 sums and what was taken out. Data,
    checkpoints and environments are not packed. `user`: a person's name to take out. `unpack_bundle` reads it.
    """
    people = {user} if user and user not in _COMMON_PEOPLE else set()
    redactor = Redactor(hosts=() if keep_hosts else _hosts(folder), people=people)
    root, files, left_out = f"emberward-{folder.name}-{folder.id}", {"README.txt": _README.encode()}, []
    room = MAX_BYTES
    for name, text in _texts(folder):
        if len(files) >= MAX_FILES or len(text) > room:
            left_out.append(name)
            continue
        # A file whose name begins with "<", as code that was made from a text has it, is no line of a program.
        files[name] = redactor.text(text).replace('"filename": "<path>/', '"filename": "/').encode()
        room -= len(files[name])
    files["MANIFEST.json"] = _manifest(folder, files, redactor, left_out)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with tarfile.open(temporary, "w:gz") as tar:
            for name, data in sorted(files.items()):
                info = tarfile.TarInfo(f"{root}/{name}")
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Bundle(
        path=path,
        files=tuple((name, len(data)) for name, data in sorted(files.items())),
        hidden=dict(redactor.summary()),
        left_out=tuple(left_out),
    )


def unpack_bundle(path: Path, into: Path) -> Path | None:
    """The run's folder, unpacked below `into`; None for a file that is no bundle. Nothing is written elsewhere.

    Raises UnreadableError when it is damaged or unpacks to more than is read.
    """
    kind = archive_kind(path)
    if kind is None:
        return None
    unpack(path, kind, into)
    found = next(into.glob("*/MANIFEST.json"), None)
    run = None if found is None else (read_json(found) or {}).get("run")
    if found is None or not isinstance(run, dict):
        return None if found is None else found.parent
    name, number = str(run.get("name")), str(run.get("id"))
    if not (_RUN_ID.fullmatch(name) and _RUN_ID.fullmatch(number)) or (into / name).exists():
        return found.parent
    (into / name).mkdir()
    return found.parent.rename(into / name / number)


def _manifest(folder: RunFolder, files: dict[str, bytes], redactor: Redactor, left_out: list[str]) -> bytes:
    value = {
        "emberward_bundle": 1,
        "run": {"name": folder.name, "id": folder.id},
        "files": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(files.items())
        },
        "taken_out": redactor.summary(),
        "left_out": left_out,
    }
    return json.dumps(value, indent=1).encode()


def _hosts(folder: RunFolder) -> set[str]:
    """Every host name that the run wrote down, and this machine's."""
    found = {socket.gethostname()}
    for path in folder.ranks.glob("rank*.json"):
        found.add(str((read_json(path) or {}).get("host", "")))
    for line in (*read_lines(folder.attempts), *read_lines(folder.findings)):
        found.add(str(line.get("host", "")))
        hosts = line.get("hosts")
        found |= {str(host) for host in hosts} if isinstance(hosts, list) else set()
    whole = {host for host in found if host and host != "localhost"}
    return whole | {host.split(".")[0] for host in whole}


def _texts(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Name and text of each file that goes in, the most telling first."""
    for name in _WHOLE:
        if (folder.path / name).is_file():
            yield name, _end_of(folder.path / name)
    for place in _FOLDERS:
        for path in sorted((folder.path / place).rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix in (".log", ".json", ".jsonl", ".txt"):
                yield str(path.relative_to(folder.path)), _end_of(path)
    for path in sorted(folder.events.rglob("*.jsonl")):
        yield str(path.relative_to(folder.path)), _end_of(path)
    for attempt in sorted(folder.events.glob("attempt-*"), reverse=True):
        for path in find_rings(attempt):
            with contextlib.suppress(ValueError):
                packed = path.relative_to(folder.path).with_suffix(".json")
                yield str(packed), json.dumps(bundled(read_rank_ring(path)))


def _end_of(path: Path) -> str:
    """The text of a file, of a long one its end from the start of a line on. A file that cannot be read says why."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - MAX_FILE_BYTES))
            data = file.read(MAX_FILE_BYTES)
    except OSError as error:
        return f"<cannot be read: {error.strerror}>"
    if size > MAX_FILE_BYTES:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", errors="replace")

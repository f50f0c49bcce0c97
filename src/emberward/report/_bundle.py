"""Packs a run for a ticket: what tells about an incident, bounded in size, without secrets."""

import hashlib
import io
import json
import os
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.events import Event, describe
from emberward.report._folder import RunFolder
from emberward.report._read import read_json, read_lines
from emberward.report._redact import Redactor
from emberward.sources.ring import RingView, find_rings, read_ring

MAX_FILE_BYTES = 1 << 20
"""Of a longer file its end is packed."""
MAX_FILES = 2000
MAX_EVENTS = 2000
"""Last events of each rank."""
_COMMON_PEOPLE = frozenset({"root", "user", "nobody", "ubuntu", "admin"})
_WHOLE = (
    "config.resolved.yaml", "command.json", "findings.jsonl", "attempts.jsonl", "summary.json", "progress.json",
    "certificate.json", "proof.json", "preflight.json", "metrics.jsonl", "evals.jsonl", "detours.json",
    "supervisor.json", "acknowledged.jsonl", "doctor.json", "doctor.txt",
)  # fmt: skip
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
    last events of each rank as JSON, and ``MANIFEST.json`` with sizes, SHA-256 sums and what was taken out. Data,
    checkpoints and environments are not packed. `user`: a person's name to take out.
    """
    people = {user} if user and user not in _COMMON_PEOPLE else set()
    redactor = Redactor(hosts=() if keep_hosts else _hosts(folder), people=people)
    root, files, left_out = f"emberward-{folder.name}-{folder.id}", dict[str, bytes](), []
    for name, text in _texts(folder):
        if len(files) >= MAX_FILES:
            left_out.append(name)
            continue
        files[name] = redactor.text(text).encode()
    files["MANIFEST.json"] = _manifest(files, redactor, left_out)
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


def _manifest(files: dict[str, bytes], redactor: Redactor, left_out: list[str]) -> bytes:
    value = {
        "emberward_bundle": 1,
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
    for path in find_rings(folder.events):
        yield f"rings/{path.stem}.json", json.dumps(_ring_value(read_ring(path)))


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


def _ring_value(view: RingView) -> dict[str, Any]:
    """What a person wants to see of a ring, as JSON."""
    return {
        "rank": view.rank,
        "world_size": view.world_size,
        "pid": view.pid,
        "host": view.host,
        "step": view.step,
        "heartbeat_age_s": view.heartbeat_age_s,
        "problems": list(view.problems),
        "num_calls": view.num_calls,
        "groups": {str(group): {"issued": n.issued, "completed": n.completed} for group, n in view.groups.items()},
        "events": [_event_value(event) for event in view.events[-MAX_EVENTS:]],
    }


def _event_value(event: Event) -> dict[str, Any]:
    phase = event.phase
    return {
        "call": describe(event.body),
        "lane": str(event.lane),
        "site": None if event.site is None else str(event.site),
        "step": phase.step,
        "stage": None if phase.stage is None else phase.stage.value,
        "state": None if event.state is None else event.state.value,
        "issued_ns": event.issued_ns,
        "completed_ns": event.completed_ns,
    }

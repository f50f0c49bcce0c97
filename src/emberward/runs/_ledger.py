"""The ledger of hosts: what their hardware did, which of them take part in no run, and how they come back. No torch.

[Note: the ledger]
One folder for all runs below a place (``RUNS/ledger/HOST/0001.json``, ``0002.json``, ...), read by ``train --hosts``,
``slurm submit`` and the doctor. Entries are written once and never changed; what holds follows from them in their
order. A *strike* takes the host out. Only a hardware cause is one (`strike_of`): a program's fault kills the rank that
it meets, wherever that lies, and would cost one host after the other its place. A *soak* that passed brings the host
back, unless it had MANY strikes within WINDOW_DAYS before: then only a person's word does (*admitted*).
Source of both figures: the lemon nodes of Kokolis et al. 2024 (arXiv 2410.21680) are found by repeated failures over
weeks; two in 30 days is the rule of our own that the ledger applies.
Hosts are left out only while enough others are there: a run that needs all of them starts on all that answer.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Severity
from emberward.report import read_json, write_once

FOLDER = "ledger"
MAX_HOSTS = 4096
MAX_ENTRIES = 1000
"""Entries of one host."""
MAX_RACES = 20
"""How often an entry is tried while other processes write theirs."""
MANY, WINDOW_DAYS = 2, 30
_OF_A_RUN = frozenset({"L112", "L113"})
_OF_THE_DOCTOR = frozenset({"E101", "E103"})
_HARDWARE = frozenset(
    {
        Cause.BIT_FLIP,
        Cause.DEVICE_STALL,
        Cause.HOST_DOWN,
        Cause.LINK_DOWN,
        Cause.SEGFAULT,
        Cause.SLOW_LINK,
        Cause.SLOW_RANK,
    }
)
"""What a test by the doctor can show of hardware, when the same command passes on the host's peers."""
_SLOW = frozenset({Cause.SLOW_LINK.value, Cause.SLOW_RANK.value})


class Happened(StrEnum):
    """What an entry says."""

    STRIKE = "strike"
    SOAKED = "soak passed"
    ADMITTED = "admitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: when (UTC), by whom or what, and why; `finding` is what a strike was for, as plain data."""

    what: Happened
    at: datetime
    by: str
    why: str
    finding: Mapping[str, Any]
    path: Path

    def to_json(self) -> dict[str, Any]:
        """The entry as it stands in its file."""
        return {
            "what": self.what.value,
            "at": self.at.isoformat(timespec="seconds"),
            "by": self.by,
            "why": self.why,
            "finding": dict(self.finding),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A host's entries, oldest first."""

    host: str
    entries: tuple[Entry, ...]

    @property
    def strikes(self) -> tuple[Entry, ...]:
        """The strikes since a person admitted the host last."""
        found: list[Entry] = []
        for entry in self.entries:
            if entry.what is Happened.ADMITTED:
                found = []
            elif entry.what is Happened.STRIKE:
                found.append(entry)
        return tuple(found)

    @property
    def out(self) -> Entry | None:
        """The strike for which the host is left out now; None when it takes part. See [Note: the ledger]."""
        out: Entry | None = None
        before: list[Entry] = []
        for entry in self.entries:
            match entry.what:
                case Happened.STRIKE:
                    out = entry
                    before.append(entry)
                case Happened.SOAKED:
                    out = out if _is_many(before, entry.at) else None
                case Happened.ADMITTED:
                    out, before = None, []
        return out

    @property
    def needs_a_person(self) -> bool:
        """Whether the host is out and no soak brings it back."""
        return self.out is not None and _is_many(self.strikes, self.out.at)

    @property
    def is_slow_alone(self) -> bool:
        """Whether it only ever was slow: it may serve where there is nobody else."""
        return all(strike.finding.get("cause") in _SLOW for strike in self.strikes)


def _is_many(strikes: Sequence[Entry], now: datetime) -> bool:
    return sum(now - strike.at <= timedelta(days=WINDOW_DAYS) for strike in strikes) >= MANY


def strike_of(finding: Finding) -> str | None:
    """The host that the finding costs its place; None for all that is no fault of one host's hardware.

    A run must have seen it (L112, L113), or the doctor have found it by tests that its peers passed (E101, E103).
    """
    if finding.severity is not Severity.ERROR or len(finding.hosts) != 1:
        return None
    is_seen = finding.certainty in (Certainty.PROVED, Certainty.OBSERVED)
    if finding.code in _OF_A_RUN and is_seen:
        return finding.hosts[0]
    is_tested = finding.code in _OF_THE_DOCTOR and (is_seen or finding.certainty is Certainty.INFERRED)
    return finding.hosts[0] if is_tested and finding.cause in _HARDWARE else None


def host_file_name(host: str) -> str:
    """A host's name as a file may be called."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host)[:100].strip(".") or "host"


def strike(place: Path, finding: Finding, *, by: str, at: datetime | None = None) -> Path | None:
    """The entry that takes the host of the finding out, now written or there already; None when it is no strike.

    `at`: when; None: now. Of several processes that report one fault at once, one writes. Raises OSError when the
    folder cannot be written.
    """
    host = strike_of(finding)
    if host is None:
        return None
    why = f"{finding.code} {finding.message}"
    for _ in range(MAX_RACES):
        number = _next_number(place, host)
        if (out := read_record(place, host).out) is not None:
            return out.path
        _add(place, host, number, Happened.STRIKE, by=by, why=why, finding=finding.to_json(), at=at)
    raise OSError(f"{place / FOLDER} does not give back what is written to it")


def admit(place: Path, host: str, *, by: str, why: str, is_soaked: bool = False, at: datetime | None = None) -> Record:
    """The host's record after a soak that passed, or after a person's word that it is repaired. Raises OSError."""
    what = Happened.SOAKED if is_soaked else Happened.ADMITTED
    for _ in range(MAX_RACES):
        number = _next_number(place, host)
        count = sum(entry.what is what for entry in read_record(place, host).entries)
        _add(place, host, number, what, by=by, why=why, finding={}, at=at)
        found = read_record(place, host)
        if sum(entry.what is what for entry in found.entries) > count:
            return found
    raise OSError(f"{place / FOLDER} does not give back what is written to it")


def _next_number(place: Path, host: str) -> int:
    """The number of the host's next entry. Taken before the record is read: what is written since then has it."""
    folder = place / FOLDER / host_file_name(host)
    return 1 + max((int(path.stem) for path in _files(folder)), default=0)


def _add(
    place: Path,
    host: str,
    number: int,
    what: Happened,
    *,
    by: str,
    why: str,
    finding: Mapping[str, Any],
    at: datetime | None,
) -> None:
    """Writes entry `number`, whole; nothing when another process has written one with that number."""
    folder = place / FOLDER / host_file_name(host)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:04d}.json"
    entry = Entry(what=what, at=at or datetime.now(UTC), by=by, why=why, finding=finding, path=path)
    write_once(path, {"host": host, **entry.to_json()})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if path.stem.isdigit())[-MAX_ENTRIES:]


def read_record(place: Path, host: str) -> Record:
    """What the ledger below `place` says of the host; no entries for one that it does not know."""
    return _record(place / FOLDER / host_file_name(host), host)


def read_ledger(place: Path) -> dict[str, Record]:
    """host -> its record, by name, of the ledger below `place`. Reads at most MAX_HOSTS hosts."""
    folders = sorted(path for path in (place / FOLDER).glob("*") if path.is_dir())[:MAX_HOSTS]
    records = [_record(folder, folder.name) for folder in folders]
    return {record.host: record for record in sorted(records, key=lambda record: record.host) if record.entries}


def _record(folder: Path, host: str) -> Record:
    entries = []
    for path in _files(folder):
        said = read_json(path)
        if said is None:
            continue
        try:
            at = datetime.fromisoformat(said["at"])
            what = Happened(said["what"])
        except (KeyError, TypeError, ValueError):
            continue
        host = str(said.get("host") or host)
        finding = said.get("finding")
        entries.append(
            Entry(
                what=what,
                at=at if at.tzinfo else at.replace(tzinfo=UTC),
                by=str(said.get("by", "")),
                why=str(said.get("why", "")),
                finding=finding if isinstance(finding, dict) else {},
                path=path,
            )
        )
    return Record(host=host, entries=tuple(entries))


def left_out(place: Path) -> dict[str, Entry]:
    """host -> the strike for which it is left out now, by name."""
    return {host: out for host, record in read_ledger(place).items() if (out := record.out) is not None}


def spared(records: Mapping[str, Record], hosts: Collection[str], *, num_needed: int) -> frozenset[str]:
    """Of `hosts`, those that are left out and take part all the same, as only so `num_needed` are there.

    Taken back first: what only was slow, then what has the fewest strikes, then whose last strike is longest ago.
    """
    out = [records[host] for host in hosts if host in records and records[host].out is not None]
    missing = num_needed - (len(hosts) - len(out))
    order = sorted(out, key=lambda each: (not each.is_slow_alone, len(each.strikes), each.strikes[-1].at, each.host))
    return frozenset(record.host for record in order[: max(missing, 0)])

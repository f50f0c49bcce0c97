"""The ring folder of one attempt: made before the start, copied at an incident and at the end, and taken away."""

import contextlib
import os
import shutil
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from emberward.findings import Finding
from emberward.processes import ProcessId, ProcessTree, identify, is_alive
from emberward.report import read_json, write_json
from emberward.sources.attach import attach_environment
from emberward.sources.ring import (
    SUFFIX,
    find_rings,
    gap_findings,
    new_ring_folder,
    read_ring,
    remove_ring_folder,
    unattached_findings,
)

OWNER = "owner.json"
MAX_COPIED_BYTES = 2 << 30
MAX_KEPT_ATTEMPTS = 8
_NAME = ("rank", "unranked-")


def pid_of(ring: Path) -> int | None:
    """The process that writes a ring, by the file's name; None when it is no ring's name."""
    text = ring.stem.rpartition("-")[2]
    return int(text) if ring.stem.startswith(_NAME) and text.isdecimal() else None


def rank_of(ring: Path) -> int | None:
    """The rank that writes a ring, by the file's name; None when it did not know its rank."""
    text = ring.stem.partition("-")[0].removeprefix("rank")
    return int(text) if text.isdecimal() else None


class RingBox:
    """The rings of one attempt on this host. `folder` is None when none could be made; `problem` says why."""

    def __init__(
        self, job: str, *, owner: ProcessId | None, tree: ProcessTree, kept: Path, folder: Path | None = None
    ) -> None:
        """Makes the folder unless it is given, and takes away those that nobody owns any more. Never raises.

        When we die, `tree` copies the rings to the folder `kept` and removes theirs.
        """
        self._tree = tree
        self.folder: Path | None = None
        self.problem: str | None = None
        self._told: set[str] = set()
        try:
            own = partial(tree.own_folder, kept=kept, suffix=SUFFIX, with_parent=True)
            if folder is not None:
                own(folder)
            self.folder = new_ring_folder(job, before=own) if folder is None else folder
            _remove_abandoned(self.folder.parent, but=self.folder)
            if owner is not None:
                write_json(self.folder / OWNER, {"pid": owner.pid, "created": owner.created})
        except OSError as error:
            self.problem = f"no ring folder could be made: {error}"

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with what makes the ranks below it record into the rings; `base` alone without a folder."""
        if self.folder is None:
            return dict(base)
        return attach_environment(base, ring_folder=self.folder)

    def rings(self) -> dict[int, Path]:
        """pid -> ring of all processes that have written one."""
        if self.folder is None:
            return {}
        return {pid: ring for ring in find_rings(self.folder) if (pid := pid_of(ring)) is not None}

    def has_captured(self) -> bool:
        """Whether a process of this attempt has noted a loss or a log: one without a ring may."""
        return self.folder is not None and next(self.folder.glob("captured-*"), None) is not None

    def copy(self, to: Path) -> None:
        """Copies all rings, as they are now, to the folder `to`, up to MAX_COPIED_BYTES; keeps the newest attempts.

        A copy that cannot be made sets `problem`; nothing is raised.
        """
        left = MAX_COPIED_BYTES
        rings = self.rings().values()
        if not rings:
            return
        try:
            to.mkdir(parents=True, exist_ok=True)
            for ring in rings:
                left -= ring.stat().st_size
                if left < 0:
                    self.problem = f"rings over {MAX_COPIED_BYTES >> 30} GiB were not copied"
                    break
                temporary = to / f".{ring.name}.tmp"
                shutil.copyfile(ring, temporary)
                temporary.replace(to / ring.name)
            for old in sorted(to.parent.glob("attempt-*"))[:-MAX_KEPT_ATTEMPTS]:
                shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            self.problem = f"rings could not be copied: {error}"

    def gaps(self, *, is_last: bool) -> list[Finding]:
        """What the recorders of this attempt could not do, each told once: H120, and at the end H121."""
        if self.folder is None:
            return []
        found = list(unattached_findings(self.folder, host=socket.gethostname()))
        if is_last:
            found += gap_findings(read_ring(ring, num_events=0) for ring in self.rings().values())
        new = [finding for finding in found if finding.message not in self._told]
        self._told.update(finding.message for finding in new)
        return new

    def remove(self) -> None:
        """Takes the folder away."""
        if self.folder is not None:
            remove_ring_folder(self.folder)
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()
            self._tree.forget_folder(self.folder)


def _remove_abandoned(above: Path, *, but: Path) -> None:
    """Removes ring folders whose supervisor is gone and of whose processes none lives: somebody killed them all."""
    for folder in above.iterdir():
        said = read_json(folder / OWNER)
        if folder == but or said is None or not isinstance(said.get("pid"), int):
            continue
        owner = ProcessId(pid=said["pid"], created=float(said.get("created") or 0.0))
        pids = [pid for ring in find_rings(folder) if (pid := pid_of(ring)) is not None]
        if not is_alive(owner) and not any(identify(pid) for pid in pids):
            remove_ring_folder(folder)


def own_identity() -> ProcessId | None:
    """Who we are, as ring folders name their owner."""
    return identify(os.getpid())

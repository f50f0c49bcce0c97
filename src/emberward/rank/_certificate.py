"""Holds this rank to the certificate that lies in the run's folder, from its first group to its last call."""

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from emberward import __version__
from emberward.diagnose import Departed
from emberward.diagnose.live import to_plain
from emberward.events import Phase, Stage
from emberward.files import anew
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.recipe import CertificatePolicy
from emberward.report import RunFolder, append_line, read_json, write_json
from emberward.sources import Certificate, Departure, DepartureError, Guard, RoleProgram, SiteFinder
from emberward.sources.recorder import live_recorder
from emberward.sources.ring import MarkKind
from emberward.sources.watch import CallWatch

PACKAGE = Path(__file__).parents[1]
NEVER_REHEARSED = (Stage.LOAD.value, Stage.SEARCH.value)
"""What a start reads back, and what is looked for after an alarm: their calls depend on a save or on values."""
REPAIR = "find what this line branches on: it must be the same on every rank; then emberward check of the recipe"


class CertificateWatch:
    """Compares the calls of rank `rank` with `program`; does nothing when that is None or the policy is OFF.

    Where the rank has a ring, the ring is told how far the rank has come. `is_supervised`: what stops the rank is
    written down by its launcher, from the rank's failure file, with the attempt.
    """

    def __init__(
        self,
        folder: RunFolder,
        program: RoleProgram | None,
        *,
        rank: int,
        policy: CertificatePolicy,
        is_supervised: bool = False,
    ) -> None:
        self._folder = folder
        self._rank = rank
        self._policy = policy
        self._is_supervised = is_supervised
        self._num_told = 0
        live = live_recorder()
        self.guard: Guard | None = None
        if program is not None and policy is not CertificatePolicy.OFF:
            self.guard = Guard(
                program,
                rank=rank,
                find_site=SiteFinder(roots=(PACKAGE.parent,), program=lambda: PACKAGE.name).here,
                on_departure=self._departed,
                on_first_step=self._first_step_done,
                publish=None if live is None else live.writer.certify,
            )

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Compares each call while open. Does nothing without a certificate."""
        if self.guard is None:
            yield
            return
        with CallWatch(self.guard).recording():
            yield

    def enter(self, phase: Phase, count: int | None = None, /) -> None:
        """A part of the run begins. Raises DepartureError when the one before it left out a call."""
        guard = self.guard
        if guard is None:
            return
        guard.begin(phase, count)
        for kind, number in list(guard.not_certified)[self._num_told :]:
            if kind in NEVER_REHEARSED:
                continue
            size = "" if number is None else f" of {number}"
            sys.stderr.write(f"certificate: {kind}{size} is not in it; its calls are not compared\n")
        self._num_told = len(guard.not_certified)

    def _first_step_done(self, position: int) -> None:
        """Says so in the rank's log, and in the file that says who the rank is, where the launcher reads it."""
        file = self._folder.rank_file(self._rank)
        said = read_json(file)
        if said is not None:
            write_json(file, {**said, "certified_calls": position})
        sys.stderr.write(
            f"certificate: rank {self._rank} runs what was proved: {position} calls up to its first step\n"
        )

    def _departed(self, departure: Departure) -> None:
        """Tells it before the call is issued, and keeps the call from being issued unless the policy is to go on."""
        error = DepartureError(departure, next=REPAIR)
        self._note(departure)
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        stops = self._policy is CertificatePolicy.STOP
        finding = error.to_finding() if stops else replace(error.to_finding(), severity=Severity.WARNING)
        if not (stops and self._is_supervised):
            append_line(self._folder.findings, finding.to_json())
        if stops:
            raise error

    @staticmethod
    def _note(departure: Departure) -> None:
        """Writes it into the rank's ring, where the judge of a job that stands finds it."""
        live = live_recorder()
        if live is None:
            return
        told = Departed(
            cause=departure.cause,
            expected=departure.expected_text,
            found=departure.found_text,
            site=departure.site,
            step=departure.step,
            micro_batch=departure.micro_batch,
            stage=departure.stage,
        )
        live.writer.moment(MarkKind.DEPARTURE, json.dumps(to_plain(told)))


def read_program(folder: RunFolder, *, rank: int, recipe: str) -> RoleProgram | None:
    """What the folder's certificate says that `rank` calls, None when there is none for this recipe and these versions.

    Says R111 when there is one that cannot be used.
    """
    path = folder.certificate
    if not path.exists():
        return None
    try:
        found = Certificate.from_json(json.loads(anew(lambda: path.read_text(encoding="utf-8"))))
        program = found.role(rank)
    except (OSError, IndexError, KeyError, TypeError, ValueError) as error:
        why = f"it cannot be read: {type(error).__name__}: {error}"
    else:
        theirs = {"recipe": found.recipe, "Emberward": found.emberward, "torch": found.torch}
        ours = {"recipe": recipe, "Emberward": __version__, "torch": torch.__version__}
        odd = next((name for name, value in ours.items() if theirs[name] != value), None)
        if odd is None:
            return program
        why = f"it is for {odd} {theirs[odd][:16]}, this is {ours[odd][:16]}"
    sys.stderr.write(f"R111 the certificate is not used: {why}\n")
    if rank == 0:
        append_line(folder.findings, unused_finding(path, why).to_json())
    return None


def unused_finding(path: Path, why: str) -> Finding:
    """R111, a notice: the ranks run without being compared."""
    return Finding(
        code="R111",
        severity=Severity.NOTICE,
        kind=Kind.CONFIG,
        cause=Cause.VERSION_SKEW,
        certainty=Certainty.OBSERVED,
        message=f"the certificate is not used: {why}",
        site=str(path),
        next="start again with the check, which writes a certificate for this recipe",
    )

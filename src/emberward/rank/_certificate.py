"""Holds this rank to the certificate that lies in the run's folder, from its first group to its last call."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from emberward import __version__
from emberward.events import Phase
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.recipe import CertificatePolicy
from emberward.report import RunFolder, append_line
from emberward.sources import Certificate, Departure, DepartureError, Guard, SiteFinder
from emberward.sources.recorder import Recorder

PACKAGE = Path(__file__).parents[1]
REPAIR = "find what this line branches on: it must be the same on every rank; then emberward check of the recipe"


class CertificateWatch:
    """Compares the calls of rank `rank` with its certificate; one that does nothing where there is none.

    `publish` is told how far the rank has come, as `Guard` says.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        rank: int,
        recipe: str,
        policy: CertificatePolicy,
        publish: Callable[[int, int], None] | None = None,
    ) -> None:
        self._folder = folder
        self._rank = rank
        self._policy = policy
        self._num_told = 0
        self.guard: Guard | None = None
        certificate = None if policy is CertificatePolicy.OFF else self._read(recipe)
        if certificate is not None:
            self.guard = Guard(
                certificate.role(rank),
                rank=rank,
                find_site=SiteFinder(roots=(PACKAGE.parent,)).here,
                on_departure=self._departed,
                on_first_step=self._first_step_done,
                publish=publish,
            )

    def _read(self, recipe: str) -> Certificate | None:
        """The folder's certificate if it is for this run; tells what keeps it from being used."""
        path = self._folder.certificate
        if not path.exists():
            return None
        try:
            found = Certificate.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, KeyError, TypeError, ValueError) as error:
            self._tell_unused(f"it cannot be read: {type(error).__name__}: {error}")
            return None
        ours = {"recipe": recipe, "Emberward": __version__, "torch": torch.__version__}
        theirs = {"recipe": found.recipe, "Emberward": found.emberward, "torch": found.torch}
        for name, value in ours.items():
            if theirs[name] != value:
                self._tell_unused(f"it is for {name} {theirs[name][:16]}, this is {value[:16]}")
                return None
        return found

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Compares each call while open. Does nothing without a certificate."""
        if self.guard is None:
            yield
            return
        with Recorder(None, before=self.guard.before).recording():
            yield

    def enter(self, phase: Phase, count: int | None = None, /) -> None:
        """A part of the run begins. Raises DepartureError when the one before it left out a call."""
        guard = self.guard
        if guard is None:
            return
        guard.begin(phase, count)
        if len(guard.not_certified) > self._num_told:
            self._num_told = len(guard.not_certified)
            kind, number = next(reversed(guard.not_certified))
            size = "" if number is None else f" of {number}"
            sys.stderr.write(f"certificate: {kind}{size} is not in it; its calls are not compared\n")

    def _first_step_done(self, position: int) -> None:
        sys.stderr.write(
            f"certificate: rank {self._rank} runs what was proved: {position} calls up to its first step\n"
        )

    def _departed(self, departure: Departure) -> None:
        """Tells it before the call is issued, and keeps the call from being issued unless the policy is to go on."""
        error = DepartureError(departure, next=REPAIR)
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        append_line(self._folder.findings, error.to_finding().to_json())
        if self._policy is CertificatePolicy.STOP:
            raise error

    def _tell_unused(self, why: str) -> None:
        sys.stderr.write(f"R111 the certificate is not used: {why}\n")
        if self._rank == 0:
            append_line(self._folder.findings, unused_finding(self._folder.certificate, why).to_json())


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

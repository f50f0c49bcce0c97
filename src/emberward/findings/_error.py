"""Errors that carry the four facts of a message: what, where, expected against found, what to do next."""

from emberward.findings._catalogue import CATALOGUE
from emberward.findings._finding import Finding
from emberward.findings._words import Cause, Certainty, Kind, Severity

FACTS = ("what", "code", "where", "expected", "found", "next")
"""The fields of an error that say it in words."""


class EmberwardError(Exception):
    """Something a person can act on. Never raised for our own mistakes: those stay assertions.

    Fields: `code` of the catalogue, `what` happened, `where` (file:line, key, rank), `expected`, `found`, `next`.
    Absent facts are None and leave no line in the text. `choices` are whole commands that would pass, nearest first, or
    the one that makes the next step; whoever knows how the program was called may add them, and they stand for `next`.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        code: str,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        next: str | None = None,
        cause: Cause = Cause.UNKNOWN,
        ranks: tuple[int, ...] = (),
        choices: tuple[str, ...] = (),
    ) -> None:
        self.code = code
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.next = next
        self.cause = cause
        self.ranks = ranks
        self.choices = choices
        super().__init__(self.text())

    def text(self) -> str:
        """The message as a person reads it: one line of what, then one line for each other known fact."""
        lines = [f"{self.code} {self.what}"]
        for label, value in (
            ("where", self.where),
            ("expected", self.expected),
            ("found", self.found),
            ("next", None if self.choices else self.next),
        ):
            if value is not None:
                lines.append(f"  {label:<9} {value}")
        lines += [f"  {'next' if i == 0 else 'or':<9} {command}" for i, command in enumerate(self.choices)]
        return "\n".join(lines)

    def to_finding(self) -> Finding:
        """The same facts as an error finding that was observed."""
        entry = CATALOGUE.get(self.code)
        evidence = tuple(
            f"{label} {value}" for label, value in (("expected", self.expected), ("found", self.found)) if value
        )
        return Finding(
            code=self.code,
            severity=Severity.ERROR,
            kind=Kind.NONE if entry is None else entry.kind,
            cause=self.cause,
            certainty=Certainty.OBSERVED,
            message=self.what,
            culprit_ranks=self.ranks,
            site=self.where,
            evidence=(*evidence, *(f"fits {command}" for command in self.choices)),
            next=next(iter(self.choices), self.next or ""),
        )


class ConfigError(EmberwardError):
    """Bad usage or configuration, raised before any rank starts. Exit code 2."""

    exit_code = 2

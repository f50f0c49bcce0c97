"""Holds a rank to its certificate: each call is compared before it is issued. Pure but for what it is told to call.

[Note: what a difference tells]
The first call that is not the expected one is told once; then the guard looks no further, since everything after it
would differ too. What the call is shows in where the certificate has it: a call that the same segment has a little
later means that the calls between were left out; the same call with another type or size is that; a call that the
segment does not have is one too many.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from emberward.events import Body, Phase, Site
from emberward.findings import Cause, EmberwardError, Finding, FindingPhase
from emberward.sources._certificate import (
    FACTOR,
    MASK,
    SETUP,
    STEP,
    CallKey,
    Publish,
    RoleProgram,
    Segment,
    call_key,
    key_digest,
    key_text,
    kind_of,
)

NUM_AHEAD = 64
"""How far ahead in its segment a call is looked for, to tell calls left out from one too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """The first call of a rank that its certificate does not have there.

    `position` counts the rank's calls of this attempt from 0. `expected` None: the segment was to end. `found` None:
    the segment ended, with calls left. `num_ahead`: how many expected calls the found one skips, None when it is none
    of those that follow. `site`: the line of the found call, or of the one that did not come when the segment ended.
    """

    rank: int
    position: int
    step: int | None
    kind: str
    stage: str | None
    micro_batch: int | None
    expected: CallKey | None
    expected_site: str | None
    found: CallKey | None
    num_ahead: int | None
    site: str | None

    @property
    def cause(self) -> Cause:
        """What the difference says about the program. See [Note: what a difference tells]."""
        expected, found = self.expected, self.found
        if found is None:
            return Cause.SKIPPED_COLLECTIVE
        if expected is None:
            return Cause.EXTRA_COLLECTIVE
        if self.num_ahead is not None:
            return Cause.SKIPPED_COLLECTIVE
        if found[:2] == expected[:2]:
            if found[2] != expected[2]:
                return Cause.DTYPE
            if found[3:5] != expected[3:5] or found[7] != expected[7]:
                return Cause.SHAPE
            return Cause.DIFFERENT_ROOT if found[5] != expected[5] else Cause.DIFFERENT_OP
        return Cause.DIFFERENT_OP if found[1] == expected[1] else Cause.EXTRA_COLLECTIVE

    @property
    def expected_text(self) -> str:
        """The expected call with its line."""
        if self.expected is None:
            return f"the end of this {self.kind}"
        return key_text(self.expected) + ("" if self.expected_site is None else f" at {self.expected_site}")

    @property
    def found_text(self) -> str:
        """The found call, without its line."""
        return f"the end of this {self.kind}" if self.found is None else key_text(self.found)


class Guard:
    """Compares what one rank calls with its role's program. Threads may share it; never raises by itself.

    `on_departure` is told of the first difference, before the call is issued, and may raise to keep it from being
    issued. `on_first_step` is told once that the first step ran as proved, with the number of calls so far.
    """

    def __init__(
        self,
        program: RoleProgram,
        *,
        rank: int,
        find_site: Callable[[], Site | None],
        on_departure: Callable[[Departure], None],
        on_first_step: Callable[[int], None] | None = None,
        publish: Publish | None = None,
    ) -> None:
        self._program = program
        self._rank = rank
        self._find_site = find_site
        self._on_departure = on_departure
        self._on_first_step = on_first_step
        self._publish = publish
        self._keys: list[CallKey] = []
        self._numbers: dict[CallKey, int] = {}
        self._digests: list[int] = []
        for key in program.calls:
            self.number_of(key)
        self._forms: dict[tuple[str, int | None], tuple[Segment, ...] | None] = {}
        self._step: int | None = None
        self._kind: str = SETUP
        self._count: int | None = None
        self._form: Segment | None = None
        self._calls: tuple[int, ...] = ()
        self._at = 0
        self.position = 0
        self.hash = 0
        self.is_checking = True
        self.not_certified: dict[tuple[str, int | None], None] = {}
        """Segments in which calls came and that the certificate does not have, by kind and count."""
        self._begin(SETUP, None)

    def begin(self, phase: Phase, count: int | None = None) -> None:
        """A part of the run begins; the one before it has to be complete."""
        kind = kind_of(phase, count)
        if self.is_checking and self._form is not None and self._at < len(self._calls):
            whole = self._other_form(None)
            if whole is None:
                self._depart(None)
            else:
                self._form, self._calls = whole, whole.calls
        if self.is_checking and self._kind == STEP and self._on_first_step is not None:
            told, self._on_first_step = self._on_first_step, None
            if self._form is not None:
                told(self.position)
        self._step = phase.step
        self._begin(kind, count)

    def _begin(self, kind: str, count: int | None) -> None:
        key = (kind, count)
        if key not in self._forms:
            self._forms[key] = self._program.forms(kind, count)
        forms = self._forms[key]
        self._kind, self._count, self._at = kind, count, 0
        self._form = None if forms is None else forms[0]
        self._calls = () if self._form is None or not self.is_checking else self._form.calls

    def number_of(self, key: CallKey) -> int:
        """What stands for a call in `issue`: its number in the program, or one beyond for a call that it lacks."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._digests.append(key_digest(key))
        return number

    def before(self, body: Body) -> None:
        """A call is about to be issued."""
        key = call_key(body)
        if key is not None:
            self.issue(self.number_of(key))

    def issue(self, number: int) -> None:
        """As `before`, for a call whose number is known. Every call of the run comes here: it is short."""
        at = self._at
        if at < len(self._calls) and self._calls[at] == number:
            self._at = at + 1
        else:
            self._odd(number)
        self.hash = value = (self.hash * FACTOR + self._digests[number]) & MASK
        self.position += 1
        if self._publish is not None:
            self._publish(self.position, value)

    def _odd(self, number: int) -> None:
        """A call that is not the next of the form that was followed so far."""
        if not self.is_checking:
            return
        if self._form is None:
            self.not_certified[(self._kind, self._count)] = None
        elif (other := self._other_form(number)) is not None:
            self._form, self._calls, self._at = other, other.calls, self._at + 1
        else:
            self._depart(self._keys[number])

    def _other_form(self, number: int | None) -> Segment | None:
        """Another form of the segment that begins as this one ran and goes on with `number`, or ends for None."""
        at = self._at
        for form in self._forms[(self._kind, self._count)] or ():
            if form.calls[:at] == self._calls[:at] and (
                len(form.calls) == at if number is None else form.calls[at : at + 1] == (number,)
            ):
                return form
        return None

    def _depart(self, key: CallKey | None) -> None:
        self.is_checking = False
        self._calls = ()
        form, at = self._form, self._at
        assert form is not None, "only a certified segment can be departed from"
        expected = self._program.calls[form.calls[at]] if at < len(form.calls) else None
        place = self._program.places[form.places[min(at, len(form.places) - 1)]] if form.places else None
        is_rehearsed = form in self._program.segments
        expected_site = None if place is None or expected is None else place.site
        site = self._find_site() if key is not None else None
        ahead = [self._program.calls[number] for number in form.calls[at + 1 : at + 1 + NUM_AHEAD]]
        self._on_departure(
            Departure(
                rank=self._rank,
                position=self.position,
                step=self._step,
                kind=form.kind,
                stage=None if place is None else place.stage,
                micro_batch=place.micro_batch if place is not None and is_rehearsed else None,
                expected=expected,
                expected_site=expected_site,
                found=key,
                num_ahead=ahead.index(key) + 1 if key in ahead else None,
                site=expected_site if site is None else str(site),
            )
        )


class DepartureError(EmberwardError):
    """R110: a rank was about to issue a call that is not the proved one; it was not issued."""

    def __init__(self, departure: Departure, *, next: str) -> None:
        self.departure = departure
        super().__init__(
            f"rank {departure.rank} departs from the proved order{_where(departure)}",
            code="R110",
            where=departure.site,
            expected=departure.expected_text,
            found=departure.found_text,
            next=next,
            cause=departure.cause,
            ranks=(departure.rank,),
        )

    def to_finding(self) -> Finding:
        """The finding, with the phase and with what the difference says. Severity: error."""
        departure = self.departure
        finding = super().to_finding()
        step = FindingPhase(step=departure.step, micro_batch=departure.micro_batch, stage=departure.stage)
        said = _said(departure)
        evidence = finding.evidence if said is None else (*finding.evidence, said)
        return replace(finding, phase=step, evidence=evidence)


def _where(departure: Departure) -> str:
    """Which call it is, in words: ``at call 57 (step 3, F, micro-batch 1)``."""
    words = [] if departure.step is None else [f"step {departure.step}"]
    if departure.kind not in (STEP, departure.stage):
        words.append(departure.kind)
    if departure.stage is not None:
        words.append(departure.stage)
    if departure.micro_batch is not None:
        words.append(f"micro-batch {departure.micro_batch}")
    return f" at call {departure.position}" + (f" ({', '.join(words)})" if words else "")


def _said(departure: Departure) -> str | None:
    """What the difference says beyond itself. See [Note: what a difference tells]."""
    if departure.found is None:
        return "the part of the run ended with proved calls left"
    if departure.num_ahead is not None:
        calls = "call" if departure.num_ahead == 1 else f"{departure.num_ahead} calls"
        return f"the proved order has this call {departure.num_ahead} later: the {calls} before it did not come"
    if departure.cause is Cause.EXTRA_COLLECTIVE:
        return "the proved order has no such call here or soon after"
    return None

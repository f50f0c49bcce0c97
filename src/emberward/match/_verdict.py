"""What the judge is told to assume, and what it answers."""

from dataclasses import dataclass
from enum import StrEnum

from emberward.events import Lane, Phase, Ref
from emberward.findings import Finding


class BatchCompletion(StrEnum):
    """When a member of a batch of sends and receives is complete for a `Wait` that names it.

    TOGETHER: with the whole batch, as NCCL's grouped kernel. EACH: with its own partner, as gloo's requests.
    """

    TOGETHER = "together"
    EACH = "each"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSemantics:
    """How many bytes of sends each channel holds before its receiver comes. 0: rendezvous. None: any number.

    A channel is (group, source, destination, tag). A send that does not fit waits for its receive.
    """

    buffer_bytes: int | None

    def __post_init__(self) -> None:
        if self.buffer_bytes is not None and self.buffer_bytes < 0:
            raise ValueError(f"a buffer holds 0 bytes or more, found {self.buffer_bytes}")

    def __str__(self) -> str:
        match self.buffer_bytes:
            case None:
                return "unbounded sends"
            case 0:
                return "a send waits for its receive"
            case some:
                return f"sends buffered up to {some} bytes a channel"


RENDEZVOUS = SendSemantics(buffer_bytes=0)
UNBOUNDED = SendSemantics(buffer_bytes=None)


def buffered(buffer_bytes: int) -> SendSemantics:
    """Sends that complete early while at most `buffer_bytes` lie unreceived in their channel."""
    return SendSemantics(buffer_bytes=buffer_bytes)


class Outcome(StrEnum):
    """The verdict in one word. Only SAFE and NEEDS_BUFFER programs run to their end.

    NEEDS_BUFFER: ends only when each channel holds `Verdict.least_buffer_bytes`. WRONG: calls that meet differ, or
    a call or tensor is missing. STUCK: every call has its partners and still the program stops.
    """

    SAFE = "safe"
    NEEDS_BUFFER = "needs_buffer"
    STUCK = "stuck"
    WRONG = "wrong"


class EditKind(StrEnum):
    """A change of a program, from the cheapest to the dearest."""

    SWAP = "swap"
    BATCH = "batch"
    OWN_LANE = "own_lane"
    RAISE_CREDIT = "raise_credit"
    REMOVE_CALL = "remove_call"
    ADD_CALL = "add_call"
    SAME_CALL = "same_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """One change after which the judge has found the same trace safe."""

    kind: EditKind
    ranks: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLine:
    """One line of a witness: `rank` stands at `position` of `lane` in `op` and waits for others.

    `awaited` is the op it needs, `awaited_position` where that op stands in its rank's lane, `behind` the op at the
    head of that lane when another op is in front of the awaited one.
    """

    rank: int
    lane: Lane
    position: int
    op: str
    phase: Phase
    site: str | None
    waits_for: tuple[int, ...]
    awaited: str
    awaited_phase: Phase
    awaited_lane: Lane
    awaited_position: int
    behind: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's answer about one trace, under the assumptions it lists.

    `finishes`: the program runs to its end under the assumed sends. `witness` is the smallest cycle found, empty
    when there is none. `frontier`: (rank, event) at which each stopped lane stands; for ranks that step alike, one of
    them stands for all. `cure` is None when no single change that was tried makes the trace safe. `not_compared`:
    what should agree and is not in the trace; a verdict with such a line is no proof.
    """

    outcome: Outcome
    finishes: bool
    findings: tuple[Finding, ...]
    assumptions: tuple[str, ...]
    witness: tuple[WaitLine, ...] = ()
    frontier: tuple[tuple[int, Ref], ...] = ()
    cure: Cure | None = None
    least_buffer_bytes: int | None = None
    num_ranks: int = 0
    num_events: int = 0
    unknown_ranks: tuple[int, ...] = ()
    not_compared: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """The program ends under the assumed sends and no call is wrong; warnings may remain."""
        return self.finishes and self.outcome in (Outcome.SAFE, Outcome.NEEDS_BUFFER)

    @property
    def is_proof(self) -> bool:
        """Every call of every rank was seen, compared, and ends, with the strictest sends there are."""
        return self.is_safe and self.outcome is Outcome.SAFE and not self.unknown_ranks and not self.not_compared

"""The judge for a whole mesh by symmetry: the same decisions on one rank of each class."""

from collections.abc import Mapping
from dataclasses import replace

from emberward.events import Event, Observer
from emberward.match._check import Judge, assumption_texts
from emberward.match._roles import RoleTrace
from emberward.match._symmetry import Symmetry
from emberward.match._table import Table, compile_programs
from emberward.match._verdict import RENDEZVOUS, BatchCompletion, SendSemantics, Verdict


class RoleSubject:
    """Roles as something to edit and judge again: an edit of one rank is an edit of its role."""

    def __init__(self, roles: RoleTrace, batches: BatchCompletion) -> None:
        self.roles = roles
        self.batches = batches
        self.num_classes = 0

    def program(self, rank: int) -> tuple[Event, ...]:
        """The program of the role of `rank`, as its representative runs it."""
        return self.roles.programs[self.roles.representative_of[rank]]

    def stands_for_itself(self, rank: int) -> bool:
        """Whether `rank` is its role's representative, so that foreign calls can be added as they are."""
        return self.roles.representative_of[rank] == rank

    def edited(self, programs: Mapping[int, tuple[Event, ...]], raised_credit: tuple[int, str] | None) -> "RoleSubject":
        """The roles with other programs, and with one more unit of a credit in one role."""
        owners = self.roles.representative_of
        changed = {owners[rank]: events for rank, events in programs.items()}
        credits = dict(self.roles.credits)
        if raised_credit is not None:
            rank, name = raised_credit
            key = (owners[rank], name)
            credits[key] = credits.get(key, credits.get((None, name), 0)) + 1
        roles = replace(self.roles, programs={**self.roles.programs, **changed}, credits=credits)
        return RoleSubject(roles, self.batches)

    def table(self) -> Table:
        """The compiled quotient: one node for each class of ranks that step alike."""
        symmetry = Symmetry(self.roles)
        owners, credits = self.roles.representative_of, self.roles.credits
        self.num_classes = symmetry.num_nodes

        def capacity(rank: int, name: str) -> int | None:
            return credits.get((owners[rank], name), credits.get((None, name)))

        return compile_programs(symmetry.programs(), symmetry, batches=self.batches, capacity=capacity)


def check_roles(
    roles: RoleTrace,
    *,
    sends: SendSemantics = RENDEZVOUS,
    batches: BatchCompletion = BatchCompletion.TOGETHER,
    with_cure: bool = True,
    with_hazards: bool = True,
) -> Verdict:
    """The verdict on the whole mesh, exact for the ranks' programs as the roles give them. Pure; see [Note: symmetry].

    Costs one simulation of a rank of each class of ranks that step alike, plus the colouring of all ranks. A witness
    names concrete ranks. `num_events` counts the events simulated, `num_ranks` all ranks.
    """
    subject = RoleSubject(roles, batches)
    judge = Judge(
        subject,
        observer=roles.observer,
        sends=sends,
        is_complete=roles.observer in (Observer.PLAN, Observer.DRY_RUN),
        with_cure=with_cure,
        with_hazards=with_hazards,
    )
    by_symmetry = (
        f"the ranks of a role run one program: {len(roles.programs)} roles, {subject.num_classes} classes, "
        f"{roles.mesh.size} ranks"
    )
    return judge.verdict((*assumption_texts(batches), by_symmetry, *roles.assumptions), ())

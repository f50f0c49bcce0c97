"""The judge: compiles, compares calls, runs to the fixpoint, explains what stops."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from emberward.events import Event, Observer, Ref, Trace
from emberward.findings import Cause, Certainty, Finding, Severity
from emberward.match._align import DepartureKind
from emberward.match._calls import call_faults, fault_finding
from emberward.match._cure import Candidate, Subject, cycle_candidates, fault_candidates, first_cure
from emberward.match._edges import edges_without_tensor, parted, problem_finding, unequal_messages, unmatched
from emberward.match._fault import CallFault, TieBreak
from emberward.match._flow import Executed
from emberward.match._hazard import hazard_findings
from emberward.match._simulate import Run, least_buffer_bytes, simulate
from emberward.match._splits import split_faults, uncompared_splits
from emberward.match._table import Table, compile_trace
from emberward.match._verdict import (
    RENDEZVOUS,
    UNBOUNDED,
    BatchCompletion,
    Cure,
    Outcome,
    SendSemantics,
    Verdict,
    WaitLine,
)
from emberward.match._waits import LeafKind, Taint, WaitGraph, smallest_cycle
from emberward.match._witness import cycle_finding, leaf_finding, witness_of

MAX_FINDINGS = 16
"""Most findings of one verdict; a last notice says how many more there were."""


class TraceSubject:
    """A plain trace as something to edit and judge again."""

    def __init__(self, trace: Trace, batches: BatchCompletion) -> None:
        self.trace = trace
        self.batches = batches

    def program(self, rank: int) -> tuple[Event, ...]:
        """The events of `rank`."""
        return self.trace.events[rank]

    def stands_for_itself(self, rank: int) -> bool:
        """Every rank of a plain trace does."""
        return rank in self.trace.events

    def edited(
        self, programs: Mapping[int, tuple[Event, ...]], raised_credit: tuple[int, str] | None
    ) -> "TraceSubject":
        """The trace with other programs, and with one more unit of a credit on one rank."""
        credits = dict(self.trace.credits)
        if raised_credit is not None:
            shared = (None, raised_credit[1])
            credits[raised_credit] = credits.get(raised_credit, credits.get(shared, 0)) + 1
        trace = replace(self.trace, events={**self.trace.events, **programs}, credits=credits)
        return TraceSubject(trace, self.batches)

    def table(self) -> Table:
        """The compiled trace."""
        return compile_trace(self.trace, self.batches)


class Judge:
    """One judgement: shared by plain traces and role traces. See `check`."""

    def __init__(
        self,
        subject: Subject,
        *,
        observer: Observer,
        sends: SendSemantics,
        is_complete: bool,
        with_cure: bool,
        with_hazards: bool,
        with_departing: bool = False,
        tie_break: TieBreak | None = None,
        flows: Mapping[int, Executed] | None = None,
        open_ranks: frozenset[int] = frozenset(),
    ) -> None:
        self.subject = subject
        self.table = subject.table()
        self.observer = observer
        self.sends = sends
        self.is_complete = is_complete
        self.with_cure = with_cure
        self.with_hazards = with_hazards
        self.with_departing = with_departing
        self.tie_break = tie_break
        self.flows = flows
        self.open_ranks = open_ranks
        self.taint = Taint()
        self.faults: list[CallFault] = []
        self.findings: list[Finding] = []
        self.cure: Cure | None = None
        self.witness: tuple[WaitLine, ...] = ()

    def passes(self, subject: Subject) -> bool:
        """Whether an edited subject has like calls everywhere and ends under the assumed sends."""
        table = subject.table()
        is_alike = next(call_faults(table, is_complete=True), None) is None
        is_alike = is_alike and next(split_faults(table, self.observer), None) is None
        return is_alike and not table.problems and simulate(table, self.sends).finished

    def judge_calls(self) -> None:
        """Findings that need no simulation."""
        table = self.table
        self.findings += [
            problem_finding(table, problem, self.observer, is_complete=self.is_complete) for problem in table.problems
        ]
        self.faults = list(
            call_faults(
                table,
                is_complete=self.is_complete,
                open_ranks=self.open_ranks,
                tie_break=self.tie_break,
                flows=self.flows,
            )
        )
        merged: dict[tuple[object, ...], Finding] = {}
        for fault in self.faults:
            if fault.is_open_end:
                continue
            is_shifted = fault.departure.kind is not DepartureKind.DIFFERENT
            first = 0 if is_shifted else fault.departure.index
            self.taint.meetings[fault.meeting] = min(first, self.taint.meetings.get(fault.meeting, first))
            finding = fault_finding(table, fault, self.observer)
            key = (finding.code, finding.cause, finding.culprit_ranks or fault.odd_ranks)
            if finding.code == "M103" and key in merged:
                line = f"also: {finding.message}"
                if line not in merged[key].evidence:
                    merged[key] = replace(merged[key], evidence=(*merged[key].evidence, line))
            else:
                merged[(*key, fault.meeting) if finding.code != "M103" else key] = finding
        self.findings += merged.values()
        told = self._judge_transfers()
        for channel, finding in unmatched(
            table,
            self.observer,
            is_complete=self.is_complete,
            open_ranks=self.open_ranks,
            with_departing=self.with_departing,
        ):
            self.taint.channels[channel] = 0
            if self.is_complete and table.channels[channel].source not in told:
                self.findings.append(finding)
        self.findings += (
            finding
            for channel, finding in unequal_messages(table, self.observer, with_departing=self.with_departing)
            if channel.source not in told
        )
        self.findings += split_faults(table, self.observer)
        if self.observer is Observer.PLAN:
            self.findings += edges_without_tensor(table)

    def _judge_transfers(self) -> set[int]:
        """The ranks whose transfers are explained by what they executed, with the findings about them."""
        told: set[int] = set()
        if self.flows is None or not self.is_complete:
            return told
        for ranks, finding in parted(self.table, self.flows, self.observer, open_ranks=self.open_ranks):
            told |= ranks
            self.findings.append(finding)
        for number, channel in enumerate(self.table.channels):
            if channel.source in told:
                self.taint.channels[number] = 0
        return told

    def find_cure(self, candidates: Iterator[Candidate]) -> Cure | None:
        """The first change that passes, None when cures are not wanted."""
        if not self.with_cure:
            return None
        return first_cure(candidates, self.subject, self.passes, len(self.table.events))

    def judge_stop(self, run: Run, *, least: int | None, is_buffer_enough: bool, is_assumed: bool) -> None:
        """Findings about a run that stopped."""
        table = self.table
        graph = WaitGraph(table, run, self.taint)
        cycle = smallest_cycle(graph)
        if cycle:
            cure = self.find_cure(cycle_candidates(table, cycle, self.subject))
            self.cure = self.cure or cure
            self.witness = witness_of(graph, cycle)
            self.findings.append(
                cycle_finding(
                    graph,
                    cycle,
                    self.witness,
                    cure,
                    observer=self.observer,
                    least_buffer_bytes=least,
                    is_cured_by_buffer=is_buffer_enough,
                    is_assumed_buffered=is_assumed,
                )
            )
        seen: set[object] = set()
        for leaf in graph.leaves():
            key = (leaf.kind, table.arg[leaf.event], leaf.missing_ranks)
            if key not in seen and (leaf.kind is not LeafKind.NO_PARTNER or not self.is_complete):
                seen.add(key)
                self.findings.append(leaf_finding(table, leaf, self.observer, None))

    def verdict(self, assumptions: tuple[str, ...], unknown_ranks: tuple[int, ...]) -> Verdict:
        """The whole judgement."""
        self.judge_calls()
        table = self.table
        run = simulate(table, self.sends)
        strict = run if self.sends.buffer_bytes == 0 else simulate(table, RENDEZVOUS)
        least: int | None = 0 if strict.finished else None
        is_buffer_enough = not strict.finished and table.channels != [] and simulate(table, UNBOUNDED).finished
        if is_buffer_enough:
            least = least_buffer_bytes(table)
        if not strict.finished:
            stopped = strict if run.finished else run
            self.judge_stop(stopped, least=least, is_buffer_enough=is_buffer_enough, is_assumed=run.finished)
        elif self.with_hazards and not self.faults:
            self.findings += hazard_findings(table, self.observer)
        self._cure_fault()
        return Verdict(
            outcome=self._outcome(run, strict, is_buffer_enough),
            finishes=run.finished,
            findings=_bounded(self.findings),
            assumptions=(str(self.sends), *assumptions),
            witness=self.witness,
            frontier=_frontier(table, run),
            cure=self.cure,
            least_buffer_bytes=least,
            num_ranks=sum(table.node_size(node) for node in range(len(table.node_events))),
            num_events=len(table.events),
            unknown_ranks=unknown_ranks,
            not_compared=uncompared_splits(table),
        )

    def _cure_fault(self) -> None:
        for fault in self.faults[:1]:
            cure = self.find_cure(fault_candidates(self.table, fault, self.subject))
            if cure is not None:
                self.cure = self.cure or cure
                self.findings = [
                    replace(finding, next=f"{cure.text}   (judged: this passes)")
                    if finding.code in ("M101", "M102", "M103") and finding.culprit_ranks == fault.odd_ranks
                    else finding
                    for finding in self.findings
                ]

    def _outcome(self, run: Run, strict: Run, is_buffer_enough: bool) -> Outcome:
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        if any(finding.code != "M104" for finding in errors):
            return Outcome.WRONG
        if strict.finished:
            return Outcome.SAFE
        if is_buffer_enough:
            return Outcome.NEEDS_BUFFER
        return Outcome.SAFE if run.finished else Outcome.STUCK


def _frontier(table: Table, run: Run) -> tuple[tuple[int, Ref], ...]:
    if run.finished:
        return ()
    return tuple((rank, table.events[e].ref) for rank, e in WaitGraph(table, run, Taint()).fronts())


def _bounded(findings: list[Finding]) -> tuple[Finding, ...]:
    if len(findings) <= MAX_FINDINGS:
        return tuple(findings)
    num_more = len(findings) - MAX_FINDINGS
    last = findings[MAX_FINDINGS - 1]
    notice = Finding(
        code=last.code,
        severity=Severity.NOTICE,
        kind=last.kind,
        cause=Cause.NONE,
        certainty=Certainty.PROVED,
        message=f"{num_more} more findings were left out of this verdict",
        next="repair the ones above first, then judge again",
    )
    return (*findings[:MAX_FINDINGS], notice)


def assumption_texts(batches: BatchCompletion) -> tuple[str, ...]:
    """What every verdict takes for granted besides the sends."""
    ends = "with its batch" if batches is BatchCompletion.TOGETHER else "with its partner"
    return (
        "calls of one group, channel or credit are issued in the trace's order",
        f"a wait on a batched call ends {ends}",
        "lanes run at the same time",
    )


def _trace_assumptions(trace: Trace, batches: BatchCompletion) -> tuple[str, ...]:
    found = list(assumption_texts(batches))
    if trace.unknown_ranks:
        found.append(f"{len(trace.unknown_ranks)} unobserved ranks make every call that others expect of them")
    return (*found, *trace.assumptions)


def check(
    trace: Trace,
    *,
    sends: SendSemantics = RENDEZVOUS,
    batches: BatchCompletion = BatchCompletion.TOGETHER,
    is_complete: bool | None = None,
    with_cure: bool = True,
    with_hazards: bool = True,
    with_departing: bool = False,
    tie_break: TieBreak | None = None,
    flows: Mapping[int, Executed] | None = None,
    open_ranks: frozenset[int] = frozenset(),
) -> Verdict:
    """The verdict on `trace`: does it end, do calls that meet agree, what is the smallest witness. Pure.

    Linear in events, but for the search of a witness and its cure, which are bounded. `is_complete`: the programs end
    where the trace ends; by default so for plans and dry runs, and not for live traces and dumps, whose ranks may
    simply not have come further; so may `open_ranks` of a complete trace. Ranks without events are unknown: they are
    assumed to make every call that others expect of them and are never named as guilty. `tie_break` tells who is odd
    where no majority does; `flows`, what the ranks executed, tells more and is asked first.
    """
    ended = trace.observer in (Observer.PLAN, Observer.DRY_RUN) if is_complete is None else is_complete
    judge = Judge(
        TraceSubject(trace, batches),
        observer=trace.observer,
        sends=sends,
        is_complete=ended,
        with_cure=with_cure,
        with_hazards=with_hazards,
        with_departing=with_departing,
        tie_break=tie_break,
        flows=flows,
        open_ranks=open_ranks,
    )
    return judge.verdict(_trace_assumptions(trace, batches), trace.unknown_ranks)

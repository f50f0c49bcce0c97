"""Judges what logs, the desync report, RAS and earlier findings say, when no dump says it better."""

from collections import defaultdict
from collections.abc import Sequence

from emberward.diagnose._ends import Ending, classify, death_finding, first_endings
from emberward.diagnose._evidence import Evidence
from emberward.diagnose._log_facts import LogFact, LogFactKind
from emberward.diagnose._ras_facts import RasComm, RasReport
from emberward.diagnose._say import cannot_tell, hang_finding, ranks_text, verb
from emberward.events import RankEnd
from emberward.findings import Cause, Certainty, Finding, Kind, Severity


def judge_ends(
    ends: Sequence[RankEnd],
    facts: Sequence[LogFact] = (),
    *,
    alive: Sequence[int] = (),
    is_needed: bool = False,
) -> list[Finding]:
    """A finding for each way in which ranks failed of themselves; what follows from it is listed behind it.

    A rank that gloo aborts for a size that does not fit is no culprit: the message tells that two calls differ, and not
    whose call is the odd one. Files tell no common time: then the first failure alone is told, and of secondary ones
    nothing is concluded. `alive` and `is_needed`: the ranks that still run, and whether any of them waits.
    """
    sizes = [fact for fact in facts if fact.kind is LogFactKind.SIZE]
    if sizes:
        return [_size_finding(sizes)]
    endings = [ending for end in ends if (ending := classify(end)) is not None]
    firsts, certainty = first_endings(endings, is_needed=is_needed)
    has_time = all(each.end.at_s is not None for each in firsts)
    if certainty is not Certainty.OBSERVED and not has_time:
        return []
    together: dict[tuple[Cause, str, str | None], list[Ending]] = defaultdict(list)
    for ending in firsts if has_time else firsts[:1]:
        together[(ending.cause, ending.text, ending.end.site)].append(ending)
    told = {ending.end for group in together.values() for ending in group}
    others = [each for each in endings if each.end not in told and each.has_failed]
    return [death_finding(group, waiting=alive, others=others, certainty=certainty) for group in together.values()]


def _size_finding(sizes: Sequence[LogFact]) -> Finding:
    first = sizes[0]
    who = "a rank" if first.rank is None else f"rank {first.rank}"
    return hang_finding(
        "M102",
        f"calls that meet differ in size: gloo aborted {who}, which got {first.word}; either side may be the odd one",
        cause=Cause.SHAPE,
        certainty=Certainty.OBSERVED,
        waiting=() if first.rank is None else (first.rank,),
        evidence=[f"{fact.path}:{fact.line} {fact.text[:200]}" for fact in sizes[:4]],
        ruled_out=("a death of its own: the abort follows from what came",),
        next_step="print the shape before that call on every rank, or run under TORCH_DISTRIBUTED_DEBUG=DETAIL",
    )


def judge_logs(facts: Sequence[LogFact]) -> list[Finding]:
    """What the watchdog and the desync report say about who is behind."""
    found = _desync(facts)
    if not found:
        found = _lagging(facts)
    found += _network(facts)
    lost = [fact for fact in facts if fact.kind is LogFactKind.HEARTBEAT_LOST]
    if lost:
        ranks = sorted({fact.rank for fact in lost if fact.rank is not None})
        found.append(
            hang_finding(
                "H112",
                f"torch's watchdog itself stood still{' on ' + ranks_text(ranks) if ranks else ''}: the process "
                "holds the GIL or a device call does not return",
                cause=Cause.LOCK,
                ranks=ranks,
                evidence=[f"{fact.path}:{fact.line} {fact.text[:160]}" for fact in lost[:4]],
                next_step="take a native stack of that process: py-spy dump --native --pid PID",
            )
        )
    return found


def _desync(facts: Sequence[LogFact]) -> list[Finding]:
    told: dict[LogFactKind, set[int]] = defaultdict(set)
    for fact in facts:
        told[fact.kind].update(fact.ranks)
    timed = {fact.rank for fact in facts if fact.kind is LogFactKind.TIMEOUT and fact.rank is not None}
    ranks = told[LogFactKind.NEVER_JOINED] or told[LogFactKind.FINISHED_NOT_JOINED]
    if not ranks:
        return []
    evidence = [f"{f.path}:{f.line} {f.text[:200]}" for f in facts if f.ranks][:6]
    return [
        hang_finding(
            "H101",
            f"{ranks_text(ranks)} never joined the call in which the others timed out (torch's desync report)",
            kind=Kind.HANG,
            cause=Cause.UNKNOWN,
            ranks=sorted(ranks),
            waiting=sorted((told[LogFactKind.JOINED_NOT_FINISHED] | timed) - ranks),
            evidence=evidence,
            next_step=f"take the stack or the log of {ranks_text(ranks)}: the report does not tell what it did",
        )
    ]


def _lagging(facts: Sequence[LogFact]) -> list[Finding]:
    """Ranks whose last call number lies behind the others'."""
    by_group: dict[str, dict[int, list[LogFact]]] = defaultdict(lambda: defaultdict(list))
    for fact in facts:
        if fact.kind in (LogFactKind.TIMEOUT, LogFactKind.LAST_WORK) and fact.rank is not None and fact.seq is not None:
            by_group[fact.group or ""][fact.rank].append(fact)
    found = []
    for group, ranks in by_group.items():
        last = {rank: max(f.seq for f in rows if f.seq is not None) for rank, rows in ranks.items()}
        name = f" of group {group}" if group else ""
        evidence = [
            f"rank {rank} at call {last[rank]}{name}: {rows[-1].path}:{rows[-1].line} {rows[-1].text[-200:]}"
            for rank, rows in sorted(ranks.items())
        ][:8]
        found.append(_lag_finding(last, name, evidence))
    return found


def _lag_finding(last: dict[int, int], name: str, evidence: list[str]) -> Finding:
    low, high = min(last.values()), max(last.values())
    behind = sorted(rank for rank, seq in last.items() if seq == low)
    ahead = sorted(rank for rank in last if rank not in behind)
    if low == high:
        return cannot_tell(
            f"{ranks_text(behind)} timed out in call {low}{name}, the logs of the other ranks are missing",
            waiting=behind,
            evidence=evidence,
            next_step="a rank whose watchdog is silent is the one to look at: fetch the dumps of all ranks",
        )
    is_far = high - low > 1 and high > 1.05 * low
    is_majority = len(behind) * 2 < len(last)
    what = (
        f"ranks make a different number of calls: {ranks_text(ahead)} {verb(ahead, 'is', 'are')} at call {high}{name}, "
        f"{ranks_text(behind)} at call {low}"
        if is_far
        else f"{ranks_text(behind)} {verb(behind, 'is', 'are')} behind: call {low}{name} against {high}"
    )
    return hang_finding(
        "H101" if not is_far else "H104",
        what,
        kind=Kind.MISSING if is_far else Kind.HANG,
        cause=Cause.SKIPPED_COLLECTIVE if is_far else Cause.UNKNOWN,
        certainty=Certainty.INFERRED if is_majority else Certainty.UNKNOWN,
        ranks=behind if is_majority else (),
        waiting=ahead if is_majority else sorted(last),
        evidence=evidence,
        ruled_out=() if is_majority else ("a majority: too few ranks speak to tell which side is odd",),
        next_step="count the collectives of a step on these ranks: a condition that differs adds or skips one",
    )


def _network(facts: Sequence[LogFact]) -> list[Finding]:
    lines = [fact for fact in facts if fact.kind is LogFactKind.NETWORK]
    if not lines:
        return []
    peers = sorted({fact.word for fact in lines if fact.word})
    return [
        hang_finding(
            "H113",
            f"the network card reported errors{' towards ' + ', '.join(peers) if peers else ''}",
            cause=Cause.LINK_DOWN,
            certainty=Certainty.OBSERVED,
            hosts=[peer.partition(":")[0] for peer in peers],
            evidence=[f"{fact.path}:{fact.line} {fact.text[:200]}" for fact in lines[:6]],
            next_step="test the links of the hosts named: ibstat, the switch's counters",
        )
    ]


def judge_ras(reports: Sequence[RasReport]) -> list[Finding]:
    """Processes that RAS calls dead or unreachable, and communicators whose launch counts stand apart twice."""
    found = []
    for report in reports[-1:]:
        found += _ras_dead(report)
        if not found:
            stuck = reports[-2] if len(reports) > 1 else None
            found += [f for comm in report.comms if (f := _ras_behind(comm, report, stuck)) is not None]
    return found


def _ras_dead(report: RasReport) -> list[Finding]:
    missing = [m for comm in report.comms for m in comm.members if m.is_missing]
    processes = report.processes + [m for m in missing if m.pid is not None]
    if not processes and not missing:
        return []
    ranks = sorted({m.rank for m in missing if m.rank is not None}) if len(report.comms) == 1 else []
    pids = sorted({m.pid for m in processes if m.pid is not None})
    hosts = sorted({m.host for m in processes if m.host is not None})
    is_dead = any(m.is_dead for m in processes)
    what = "is dead" if is_dead else "does not answer"
    return [
        hang_finding(
            "H114",
            f"RAS: {ranks_text(pids, noun='process') if pids else ranks_text(ranks)} {what}"
            + (f" on {', '.join(hosts)}" if hosts else ""),
            kind=Kind.HANG if not is_dead else Kind.CRASH,
            cause=Cause.KILLED if is_dead else Cause.STOPPED,
            ranks=ranks,
            pids=pids,
            hosts=hosts,
            evidence=[f"{report.path}: missing {ranks_text(ranks)} of one communicator" if ranks else report.path],
            ruled_out=("the ranks that answer: RAS reached them",),
            next_step="look at that process on its host: stopped, dead, or cut off",
        )
    ]


def _ras_behind(comm: RasComm, report: RasReport, before: RasReport | None) -> Finding | None:
    if comm.leading is None:
        return None
    behind = [m for m in comm.members if m.launched is not None and m.launched < comm.leading]
    if not behind:
        return None
    earlier = None if before is None else next((c for c in before.comms if c.name == comm.name), None)
    is_same = earlier is not None and earlier.leading == comm.leading
    ranks = sorted(m.rank for m in behind if m.rank is not None)
    where = sorted({m.host for m in behind if m.host})
    counts = {m.launched for m in behind}
    return hang_finding(
        "H114",
        f"RAS: {ranks_text(ranks)} of communicator {comm.name} launched {max(c for c in counts if c is not None)} "
        f"calls, the others {comm.leading}" + ("; the same in two reports" if is_same else ""),
        kind=Kind.HANG if is_same else Kind.NONE,
        severity=Severity.ERROR if is_same else Severity.NOTICE,
        ranks=ranks if is_same else (),
        hosts=where if is_same else (),
        evidence=(report.path, "RAS counts launches: one report of different counts is usual in a job that runs"),
        next_step="ask RAS again in ten seconds and explain both reports"
        if not is_same
        else "take the stacks of these ranks",
    )


def rank_evidence(evidence: Evidence) -> list[str]:
    """One line for each kind of evidence that was read."""
    rings = sum(flight.is_ring for flight in evidence.flights.values())
    rows = (
        (rings, "{} rings of Emberward's recorder"),
        (len(evidence.flights) - rings, "{} flight-recorder dumps"),
        (len(evidence.stacks), "stacks of {} processes"),
        (len(evidence.facts), "{} log lines"),
        (len(evidence.ras), "{} RAS reports"),
        (len(evidence.traces), "{} recorded traces"),
        (len(evidence.prior), "{} earlier findings"),
    )
    return [text.format(number) for number, text in rows if number]

"""Work in vain: what was computed or copied before, rows that nothing reads, products with zeros, padding. Pure.

What lines computed alike is seen in the compared steps ([Note: computed alike]), how long that takes in the sampled
ones: of the time of stacks with the same lines of the program the same share. Time that another cause explains is that
cause's. It is told at the outermost line below which `MOSTLY` such work is done, else, of what keeps a graph and no
library makes, at the program's innermost one; of several in one function at the dearest. Of the backward it takes what
it has in all that a backward goes through. Rows that nothing reads ([Note: rows that nothing reads]) are told at the
line that makes them, with the same share of the backward. What Python does in a function of the program that gives
its caller nothing but a tensor made alike, as a table of positions is, is done for that tensor, and told where it is
called.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from emberward.findings import Cause
from emberward.lens._causes import is_collective, tell
from emberward.lens._of_all import ByAll, computed_by_all
from emberward.lens._operations import AT, Alike, RankOperations, Where
from emberward.lens._paces import Pace, pace_of
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, USER, Instruction, RankSamples, Sampled, uncertainty
from emberward.lens._source import Sources, bound_by, names_in
from emberward.lens._spans import Spans
from emberward.lens._waste import Waste

MOSTLY = 0.9
"""Of the time of torch's calls below a line. A line that does something else with what it computes in vain is one."""


def alike_work(
    operations: Sequence[RankOperations], samples: Sequence[RankSamples], sources: Sources
) -> tuple[Waste, ...]:
    """What each function of the program computes in vain, of the rank on which that costs most."""
    of_samples = {rank.rank: rank for rank in samples if rank.num_steps}
    found: dict[tuple[Cause, str], list[Waste]] = defaultdict(list)
    unread, by_all = _unread_by_all(operations), computed_by_all(operations)
    for rank in operations:
        sampled = of_samples.get(rank.rank)
        if sampled is None:
            continue
        pace = pace_of(rank, sampled)
        in_vain = (
            *_redundant(rank, sampled, pace, sources),
            *_rows(rank, sampled, pace, sources),
            *_picks(rank, sampled, pace, sources),
            *_copies(rank, sampled, sources),
            *_unread_results(unread, sampled, sources),
            *_by_all(by_all, sampled, pace, sources),
            *_wide(rank, sampled, pace, sources),
            *_padded(rank, sampled, pace, sources),
        )
        for cause, site, cost_s, evidence, sure in in_vain:
            share = cost_s / pace.step_s
            if sure * share >= MIN_GAIN and cost_s >= MIN_COST_S:
                waste = Waste(cause=cause, site=site, cost_s=cost_s, share=share, ranks=(rank.rank,), evidence=evidence)
                found[cause, site].append(waste)
    return tuple(_of_all(each) for each in found.values())


Function = tuple[str, str]
"""File and name."""


class _InVain(NamedTuple):
    """Work of one rank: seconds a step, and the share of them that their standard error leaves."""

    cause: Cause
    site: str
    cost_s: float
    evidence: tuple[str, ...]
    sure: float = 1.0


class _Spent:
    """What a function of the program spends in vain in the sampled steps."""

    def __init__(self) -> None:
        self.lines: Counter[int] = Counter()
        """Nanoseconds."""
        self._steps: dict[int, float] = defaultdict(float)

    def add(self, line: int, seen: Sampled, share: float) -> None:
        """That share of what was seen is spent at the line."""
        for step, (seconds, _) in seen.steps.items():
            self.lines[line] += int(1e9 * share * seconds)
            self._steps[step] += share * seconds

    def sure(self, num_steps: int) -> float:
        """The share of it that its standard error over the steps leaves."""
        return 1 - uncertainty(list(self._steps.values()), num_steps)


def _of_all(found: Sequence[Waste]) -> Waste:
    worst = max(found, key=lambda waste: waste.cost_s)
    return replace(worst, ranks=tuple(sorted({rank for waste in found for rank in waste.ranks})))


def _redundant(rank: RankOperations, sampled: RankSamples, pace: Pace, sources: Sources) -> Iterator[_InVain]:
    below = _below(rank.alike)
    spent: dict[Function, _Spent] = defaultdict(_Spent)
    """By file and function."""
    behind: dict[Function, dict[Where, float]] = defaultdict(dict)
    """Of these, by place, shares of the backward."""
    makers = _makers(rank.alike, below, sources)
    for seen in sampled.stacks if below else ():
        users = [place for place in seen.stack if place.owner == USER]
        where = tuple((place.file, place.line) for place in users)
        at = rank.alike.get(where)
        if at is None and not seen.flag and (calls := _called_to_make(users, where, makers)):
            around = [i for i in range(calls, len(where)) if below.get(where[i:], 0.0) >= MOSTLY]
            if tell(seen, sampled, sources) is None:
                outer = users[around[-1]]
                spent[outer.file, outer.function].add(outer.line, seen, 1.0)
            continue
        if at is None or seen.flag or at.alike_ns <= 0:
            continue
        # What a collective takes at the line is no time of the calls that were compared.
        if is_collective(seen) or tell(seen, sampled, sources) is not None:
            continue
        around = [i for i in range(len(where)) if below[where[i:]] >= MOSTLY]
        if around or at.own_ns > 0:
            outer = users[around[-1] if around else 0]
            share = (at.alike_ns if around else at.own_ns) / (at.alike_ns + at.other_ns)
            spent[outer.file, outer.function].add(outer.line, seen, share)
            behind[outer.file, outer.function][where] = at.backward
    for (file, function), each in spent.items():
        lines = each.lines
        behind_s = pace.backward_s * sum(behind[file, function].values())
        evidence = (
            f"calls of torch in {len(lines)} line{'s' if len(lines) > 1 else ''} of {function}() were given "
            "what calls of the step before, or earlier ones of the step, had been given"
        )
        site = f"{file}:{lines.most_common(1)[0][0]}"
        cost_s = lines.total() / 1e9 / sampled.num_steps + behind_s
        in_backward = (f"{1000 * behind_s:.2f} ms of it in the backward",) if behind_s > 0 else ()
        sure = each.sure(sampled.num_steps)
        yield _InVain(Cause.REDUNDANT_WORK, site, cost_s, (evidence, *in_backward), sure)


def _makers(
    alike: Mapping[Where, Alike], below: Mapping[Where, float], sources: Sources
) -> dict[Where, tuple[str, ast.FunctionDef]]:
    """By the lines around a call of the program's: the file and function called, where it gives what is made alike."""
    found: dict[Where, tuple[str, ast.FunctionDef]] = {}
    for where, spent in alike.items():
        if spent.alike_ns > 0 and len(where) > 1 and below[where[1:]] >= MOSTLY:
            (file, line), source = where[0], sources.of(where[0][0])
            statement = source.statement_at(line)
            function = None if statement is None else source.function_around(statement)
            if statement is not None and function is not None and _gives_only(function, statement):
                found[where[1:]] = file, function
    return found


def _gives_only(function: ast.FunctionDef, statement: ast.stmt) -> bool:
    """Whether each value that a function gives its caller is what the statement makes."""
    given = [each for each in ast.walk(function) if isinstance(each, ast.Return) and each.value is not None]
    made = bound_by(statement) if isinstance(statement, ast.Assign) else set()
    return bool(given) and all(each is statement or (made & names_in(each)) for each in given)


def _called_to_make(
    users: Sequence[Instruction], where: Where, makers: Mapping[Where, tuple[str, ast.FunctionDef]]
) -> int:
    """The frame that calls the function in which the thread works for a tensor that is made alike; 0 without one."""
    for i in range(1, len(where)):
        file, function = makers.get(where[i:], ("", None))
        inner = users[i - 1]
        if function is not None and (inner.file, inner.function) == (file, function.name):
            return i
    return 0


def _by_function(shares: Mapping[Where, float], sampled: RankSamples, sources: Sources) -> dict[Function, _Spent]:
    """What is spent in vain in each function: of the time at a place that share."""
    spent: dict[Function, _Spent] = defaultdict(_Spent)
    for seen in sampled.stacks if shares else ():
        users = [place for place in seen.stack if place.owner == USER]
        share = shares.get(tuple((place.file, place.line) for place in users))
        if not seen.flag and share is not None and tell(seen, sampled, sources) is None:
            spent[users[0].file, users[0].function].add(users[0].line, seen, share)
    return spent


def _picks(rank: RankOperations, sampled: RankSamples, pace: Pace, sources: Sources) -> Iterator[_InVain]:
    shares = {where: picks.picks_ns / picks.all_ns for where, picks in rank.picks.items()}
    for (file, function), each in _by_function(shares, sampled, sources).items():
        forward_s = each.lines.total() / 1e9 / sampled.num_steps
        behind = sum(p.backward for where, p in rank.picks.items() if where[0][0] == file and where[0][1] in each.lines)
        behind_s = pace.backward_s * behind
        evidence = (
            f"of the matrix in a product of {function}() no more numbers than it has rows or columns are not zero",
            f"{1000 * forward_s:.2f} ms of it in the forward, {1000 * behind_s:.2f} ms in the backward",
        )
        site, sure = f"{file}:{each.lines.most_common(1)[0][0]}", each.sure(sampled.num_steps)
        yield _InVain(Cause.ONE_HOT, site, forward_s + behind_s, evidence, sure)


def _copies(rank: RankOperations, sampled: RankSamples, sources: Sources) -> Iterator[_InVain]:
    says = "a join in {}() copies again what the same line had joined before"
    return _in_functions(Cause.REDUNDANT_WORK, says, rank.copies, sampled, sources)


def _unread_by_all(operations: Sequence[RankOperations]) -> dict[Where, float]:
    """Of places with results that no rank reads the least share: what one of them shows, all have to wait for."""
    places = set().union(*(rank.unread_results for rank in operations))
    shares = {where: min(rank.unread_results.get(where, 0.0) for rank in operations) for where in places}
    return {where: share for where, share in shares.items() if share}


def _unread_results(shares: Mapping[Where, float], sampled: RankSamples, sources: Sources) -> Iterator[_InVain]:
    says = "what torch computes in {}() leads to nothing: no operation reads it that is read, nor Python"
    return _in_functions(Cause.UNUSED_RESULT, says, shares, sampled, sources)


def _by_all(by_all: Mapping[Where, ByAll], sampled: RankSamples, pace: Pace, sources: Sources) -> Iterator[_InVain]:
    shares = {where: each.share for where, each in by_all.items()}
    for (file, function), each in _by_function(shares, sampled, sources).items():
        forward_s = each.lines.total() / 1e9 / sampled.num_steps
        behind_s = pace.backward_s * sum(
            of.backward for where, of in by_all.items() if where[0][0] == file and where[0][1] in each.lines
        )
        evidence = (
            f"every rank computes the same in {function}(), with the rows of all ranks that each has gathered",
            f"its own rows alone would save {1000 * forward_s:.2f} ms of the forward, {1000 * behind_s:.2f} ms of the "
            "backward",
        )
        site, sure = f"{file}:{each.lines.most_common(1)[0][0]}", each.sure(sampled.num_steps)
        yield _InVain(Cause.REDUNDANT_WORK, site, forward_s + behind_s, evidence, sure)


def _in_functions(
    cause: Cause, says: str, shares: Mapping[Where, float], sampled: RankSamples, sources: Sources
) -> Iterator[_InVain]:
    """What has no part in the backward, at the dearest line of each function."""
    for (file, function), each in _by_function(shares, sampled, sources).items():
        site, sure = f"{file}:{each.lines.most_common(1)[0][0]}", each.sure(sampled.num_steps)
        cost_s = each.lines.total() / 1e9 / sampled.num_steps
        yield _InVain(cause, site, cost_s, (says.format(function),), sure)


def _rows(rank: RankOperations, sampled: RankSamples, pace: Pace, sources: Sources) -> Iterator[_InVain]:
    shares = {where: rows.unread_ns / rows.all_ns for where, rows in rank.rows.items()}
    spent = _by_function(shares, sampled, sources)
    for (file, function), each in spent.items():
        lines = each.lines
        forward_s = lines.total() / 1e9 / sampled.num_steps
        at = {line: [rows for where, rows in rank.rows.items() if where[0] == (file, line)] for line in lines}
        behind_s = pace.backward_s * sum(rows.backward for seen_at in at.values() for rows in seen_at)
        line = max(lines, key=lambda line: (any(rows.is_maker for rows in at[line]), lines[line]))
        unread = sum(rows.unread_ns for rows in at[line]) / sum(rows.all_ns for rows in at[line])
        evidence = (
            f"{100 * unread:.0f}% of what torch computes for this line of {function}() are rows or weights that "
            "nothing reads",
            f"{1000 * forward_s:.2f} ms of it in the forward, {1000 * behind_s:.2f} ms in the backward",
        )
        sure = each.sure(sampled.num_steps)
        yield _InVain(Cause.UNUSED_RESULT, f"{file}:{line}", forward_s + behind_s, evidence, sure)


def _wide(rank: RankOperations, sampled: RankSamples, pace: Pace, sources: Sources) -> Iterator[_InVain]:
    """What numbers of 64 bits take that nobody asked for, at the line where they became so."""
    spent: dict[Where, _Spent] = defaultdict(_Spent)
    behind: dict[Where, float] = defaultdict(float)
    for each in rank.wide.values():
        behind[each.became] += each.backward
    for seen in sampled.stacks if behind else ():
        users = [place for place in seen.stack if place.owner == USER]
        wide = rank.wide.get(tuple((place.file, place.line) for place in users))
        if wide is not None and not seen.flag and tell(seen, sampled, sources) is None:
            spent[wide.became].add(wide.became[0][1], seen, wide.wide_ns / wide.all_ns)
    for became, lost in spent.items():
        forward_s = lost.lines.total() / 1e9 / sampled.num_steps
        behind_s = pace.backward_s * behind[became]
        evidence = (
            "numbers of 32 and of 64 bits meet there, and what is made of them is computed in 64",
            f"{1000 * forward_s:.2f} ms of it in the forward, {1000 * behind_s:.2f} ms in the backward",
        )
        site = "{}:{}".format(*became[0])
        yield _InVain(Cause.REDUNDANT_WORK, site, forward_s + behind_s, evidence, lost.sure(sampled.num_steps))


def _forwards(rank: RankOperations, pace: Pace) -> dict[str, float]:
    """Seconds a step in forwards, by the line that calls them."""
    forwards: dict[str, Spans] = defaultdict(list)
    for op in rank.operations:
        if op.thread == rank.main and op.name.startswith(AT):
            forwards[op.name.removeprefix(AT)].append((op.began_s, op.ended_s))
    return {site: pace.of(spans) for site, spans in forwards.items()}


def _below(alike: Mapping[Where, Alike]) -> dict[Where, float]:
    """By the program's frames from any on, the share of the time below that was spent on what was computed before."""
    total: dict[Where, list[int]] = defaultdict(lambda: [0, 0])
    for where, spent in alike.items():
        for i in range(len(where)):
            total[where[i:]][0] += spent.alike_ns
            total[where[i:]][1] += spent.alike_ns + spent.other_ns
    return {where: alike_ns / all_ns if alike_ns > 0 else 0.0 for where, (alike_ns, all_ns) in total.items()}


def _padded(rank: RankOperations, sampled: RankSamples, pace: Pace, sources: Sources) -> Iterator[_InVain]:
    """A part of the forward that embeds them, and of the backward the same part of the forward's share in all.

    Told where the tokens are put together: as seen, else, of what a library or another process pads, as the text asks.
    """
    forwards = _forwards(rank, pace)
    total_s = sum(forwards.values())
    for site, (share, made) in _shares(rank, forwards).items() if total_s else ():
        cost_s = share * forwards[site] * (1 + pace.backward_s / total_s)
        evidence = f"{100 * share:.0f}% of the columns of tokens are padding in every row, computed at {site}"
        at = f"{made[0][0]}:{made[0][1]}" if made else site
        if at == site:
            at = next(_asked_to_pad(site, sources), site)
        yield _InVain(Cause.PADDING, at, cost_s, (evidence,))


def _shares(rank: RankOperations, forwards: Mapping[str, float]) -> dict[str, tuple[float, Where]]:
    """By the line that calls the model, the share of the tokens' columns that are padding in every row, and the lines
    that put them together."""
    shares: dict[str, list[tuple[float, Where]]] = defaultdict(list)
    for where, share, made in rank.padded:
        site = next((name for file, line in where if (name := f"{file}:{line}") in forwards), None)
        if site is not None:
            shares[site].append((share, made))
    return {site: max(each) for site, each in shares.items()}


def _asked_to_pad(site: str, sources: Sources) -> Iterator[str]:
    """The lines of the program that ask a library for the greatest length, ``padding="max_length"``."""
    for source in sources.program([site.rpartition(":")[0]]):
        for each in ast.walk(source.tree):
            value = each.value if isinstance(each, ast.keyword) and each.arg == "padding" else None
            if isinstance(value, ast.Constant) and value.value == "max_length":
                yield f"{source.file}:{value.lineno}"

"""Compares the judge with reality on many random programs."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from emberward.events import Ref
from emberward.match import RENDEZVOUS, UNBOUNDED, BatchCompletion, SendSemantics, Verdict, buffered, check
from emberward.testing._programs import random_program
from emberward.testing._replay import ThreadReplayer

MISMATCH_CODES = ("M101", "M102", "M103")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The judge and the replay differ about the program of `seed`."""

    seed: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What came of a campaign: programs by outcome, and where judge and replay differ."""

    num_programs: int
    outcomes: dict[str, int]
    num_hung: int
    disagreements: tuple[Disagreement, ...]


def _ordered(frontier: Iterable[tuple[int, Ref]]) -> tuple[tuple[int, Ref], ...]:
    return tuple(sorted(frontier, key=lambda item: (item[0], item[1].lane, item[1].position)))


def _semantics(seed: int) -> tuple[SendSemantics, BatchCompletion]:
    rng = random.Random(f"semantics {seed}")
    sends = rng.choice([RENDEZVOUS, RENDEZVOUS, buffered(rng.randint(1, 12)), UNBOUNDED])
    return sends, rng.choice(list(BatchCompletion))


def judge_and_replay(seed: int, *, time_limit_s: float) -> tuple[Verdict, bool, tuple[Disagreement, ...]]:
    """(verdict, whether the replay ended, disagreements) for the program of `seed`. Blocks; starts threads.

    Compared: whether it ends, where each lane stops, calls that met and differ, the least buffer on both sides of
    its threshold, and that every program that stops has a finding.
    """
    trace = random_program(seed)
    sends, batches = _semantics(seed)
    verdict = check(trace, sends=sends, batches=batches)
    replay = ThreadReplayer(sends=sends, batches=batches).replay(trace, time_limit_s=time_limit_s)
    texts = []
    if replay.hit_time_limit:
        texts.append("the replay ran into its time limit")
    if verdict.finishes != replay.finished:
        texts.append(f"judged finishes={verdict.finishes}, replayed finished={replay.finished} with {sends}, {batches}")
    if _ordered(verdict.frontier) != _ordered(replay.frontier):
        texts.append(f"lanes stop elsewhere: {set(verdict.frontier) ^ set(replay.frontier)}")
    if replay.mismatches and not any(finding.code in MISMATCH_CODES for finding in verdict.findings):
        texts.append(f"calls that differ were not seen: {replay.mismatches[0]}")
    if not verdict.finishes and not verdict.findings:
        texts.append("it stops without a finding")
    least = verdict.least_buffer_bytes
    if least:
        for size in (least, least - 1):
            ended = ThreadReplayer(sends=buffered(size), batches=batches).replay(trace, time_limit_s=time_limit_s)
            if ended.finished != (size == least):
                texts.append(f"least buffer judged {least} bytes, replay with {size} ended: {ended.finished}")
    return verdict, replay.finished, tuple(Disagreement(seed=seed, text=text) for text in texts)


def run_campaign(seeds: Iterable[int], *, time_limit_s: float = 10.0) -> Campaign:
    """Judges and replays the program of each seed. Blocks; at most `time_limit_s` for each replay."""
    outcomes: Counter[str] = Counter()
    disagreements: list[Disagreement] = []
    num_programs = num_hung = 0
    for seed in seeds:
        verdict, ended, found = judge_and_replay(seed, time_limit_s=time_limit_s)
        num_programs += 1
        num_hung += not ended
        outcomes[verdict.outcome.value] += 1
        disagreements += found
    return Campaign(
        num_programs=num_programs,
        outcomes=dict(sorted(outcomes.items())),
        num_hung=num_hung,
        disagreements=tuple(disagreements),
    )

"""Days of a job on a simulated cluster: planner, ledger, policy and goodput over many faults. One seed, one course.

[Note: what is real there]
The doctor's `Plan` and what follows from it (`findings_of`, `sound_hosts`), the ledger with its files (`strike`,
`admit`, `left_out`, `spared`), who trains and who stands by (`pick_hosts`), and `goodput_of` over the diary. Fake are
time, the hosts' hardware, and the tests' answers: a device that is bad breaks each job and each set that it joins.

[Note: invariants of days]
1. A strike is for a host whose hardware was bad then: never for a program's fault.
2. An attempt has as many hosts as the recipe needs at least, as long as so many are sound.
3. A host that takes no part is a spare, or out with a strike that says why.
4. A host whose hardware broke a job is struck before the attempt after the next.
5. A repaired host comes back, by a soak that passed or, after two strikes, by a person's word.
6. Every hour has one place: kept, lost to one cause, or beside steps; the causes are those that were made.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from emberward.doctor import (
    Examination,
    Fleet,
    Links,
    Plan,
    ProbePlan,
    Result,
    SetOutcome,
    findings_of,
    sound_hosts,
)
from emberward.findings import Finding, host_down
from emberward.health import Goodput, goodput_of
from emberward.runs import admit, left_out, read_ledger, read_record, spared, strike, strike_of
from emberward.supervise import Host, pick_hosts

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NUM_TRAINING, NUM_LEAST, NUM_SPARES, DEVICES = 8, 6, 3, 4
FAULT_EVERY_H, SAVE_EVERY_H, START_H, REPAIR_H = 4.0, 0.25, 0.05, 20.0
SOAK_TRIES = 50
MAX_ROUNDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """What happened. `broken`: the invariants that did not hold, in words."""

    broken: tuple[str, ...]
    faults: dict[str, int]
    num_strikes: int
    num_back: int
    num_tests: int
    goodput: Goodput | None


class DaysSimulation:
    """`run` it once, with an empty folder for the ledger. See [Note: what is real there]."""

    def __init__(self, seed: int, place: Path) -> None:
        self._rng = random.Random(f"days {seed}")
        self._place = place
        self._now_h = 0.0
        self._hosts = tuple(Host(name=f"h{n:02d}", address="") for n in range(NUM_TRAINING + NUM_SPARES))
        self._bad: dict[str, tuple[int | None, float]] = {}
        """host -> (its bad device, None for the whole host; when it will be repaired)."""
        self._lines: list[dict[str, Any]] = []
        self._lost: defaultdict[str, float] = defaultdict(float)
        self._faults: Counter[str] = Counter()
        self._broken: list[str] = []
        self._kept_h = 0.0
        self._num_tests = self._num_back = 0

    @property
    def _at(self) -> datetime:
        return BEGAN + timedelta(hours=self._now_h)

    def run(self, *, num_faults: int) -> Days:
        """The course until so many faults were made."""
        before: str | None = None
        for number in range(1, num_faults + 1):
            team = self._team()
            self._line("start", attempt=number)
            if before is not None and before in self._bad and before not in left_out(self._place):
                self._broken.append(f"4: {before} broke attempt {number - 1} and is not out in attempt {number}")
            before = self._attempt(number, team)
            pause_h = self._rng.uniform(0.05, 0.5)
            self._lost[self._lines[-1]["cause"]] += pause_h
            self._now_h += pause_h
        self._line("start", attempt=num_faults + 1)
        self._now_h += 1.0
        self._kept_h += 1.0
        self._line("end", attempt=num_faults + 1, outcome="done")
        return self._days()

    def _line(self, event: str, **more: Any) -> None:
        self._lines.append({"event": event, event: self._at.isoformat(), **more})

    # -- who takes part ----------------------------------------------------------------------------------------------

    def _team(self) -> tuple[str, ...]:
        """Who trains now: those that the ledger does not leave out, and as many of the others as are needed."""
        self._soak()
        names = [host.name for host in self._hosts]
        out, back = left_out(self._place), spared(read_ledger(self._place), names, num_needed=NUM_LEAST)
        ready = [host for host in self._hosts if host.name not in out or host.name in back]
        train, spares = pick_hosts(ready, wanted=NUM_TRAINING, min_hosts=NUM_LEAST)
        taking = {host.name for host in (*train, *spares)}
        for name in set(names) - taking:
            if name not in out or not out[name].why:
                self._broken.append(f"3: {name} takes no part and nothing says why")
        if len(train) < NUM_LEAST:
            self._broken.append(f"2: an attempt has {len(train)} hosts")
        return tuple(host.name for host in train)

    def _soak(self) -> None:
        """Hosts that were repaired are tested with others, and come back."""
        for name, (_, until_h) in list(self._bad.items()):
            if self._now_h >= until_h:
                del self._bad[name]
        for name in left_out(self._place):
            if name in self._bad:
                continue
            other = next(h.name for h in self._hosts if h.name not in self._bad and h.name != name)
            if name not in sound_hosts(self._examine([name, other], tries=SOAK_TRIES)):
                self._broken.append(f"5: {name} is repaired and the soak did not pass")
            record = admit(self._place, name, by="soak", why="its tests passed", is_soaked=True, at=self._at)
            if record.needs_a_person:
                record = admit(self._place, name, by="a person", why="a part was changed", at=self._at)
            self._num_back += record.out is None
            if record.out is not None:
                self._broken.append(f"5: {name} is repaired and stays out: {record.out.why}")

    # -- faults --------------------------------------------------------------------------------------------------------

    def _attempt(self, number: int, team: tuple[str, ...]) -> str | None:
        """One attempt up to its fault: the host whose hardware ended it, if one did."""
        rng = self._rng
        sick = next((name for name in team if name in self._bad), None)
        work_h = rng.expovariate(1 / FAULT_EVERY_H) if sick is None else rng.uniform(0.01, 0.1)
        kind = rng.choice(["program", "device", "power"]) if sick is None else "device"
        victim = rng.choice(team) if sick is None else sick
        again_h = work_h % SAVE_EVERY_H
        self._now_h += START_H + work_h
        self._kept_h += work_h - again_h
        if kind != "program" and sick is None:
            device = None if kind == "power" else rng.randrange(DEVICES)
            self._bad[victim] = device, self._now_h + rng.uniform(0.5, REPAIR_H)
        self._faults[kind] += 1
        cause = {"program": "exception", "device": "device_stall", "power": "host_down"}[kind]
        self._lost[cause] += again_h
        self._line("end", attempt=number, outcome="failed", cause=cause, hours_lost=again_h)
        if kind == "power":
            self._strike(host_down(victim, "does not answer any more", next="look at its console"))
        else:
            # Of a rank that died nobody knows yet whether its program or its device was at fault.
            for finding in findings_of(self._examine(team, tries=1)):
                self._strike(finding)
        return None if kind == "program" else victim

    def _strike(self, finding: Finding) -> None:
        host = strike_of(finding)
        if host is None:
            return
        if host not in self._bad:
            self._broken.append(f"1: {host} is sound and was struck for {finding.code} {finding.message}")
        strike(self._place, finding, by="the doctor", at=self._at)

    def _examine(self, team: tuple[str, ...] | list[str], *, tries: int) -> Examination:
        """The planner's examination of these hosts; a device fails each set that it is in."""
        fleet = Fleet.of(list(team), DEVICES)
        plan = Plan(fleet, ProbePlan(name="sim"), random.Random(self._rng.random()))
        while plan.round < MAX_ROUNDS and (sets := plan.next_round()):
            plan.learn([self._test(fleet, devices, tries) for devices in sets])
        self._num_tests += len(plan.results)
        return Examination(fleet=fleet, plans=(plan,), seconds=1.0)

    def _test(self, fleet: Fleet, devices: tuple[int, ...], tries: int) -> Result:
        members = [fleet.devices[number] for number in devices]
        bad = {
            number: "no answer" if self._bad[each.host][0] == each.index else "host not reached"
            for number, each in zip(devices, members, strict=True)
            if each.host in self._bad and self._bad[each.host][0] in (None, each.index)
        }
        return Result(
            devices=devices,
            outcome=SetOutcome.FAIL if bad else SetOutcome.PASS,
            seconds=1.0,
            links=Links.ALL,
            tries=tries,
            failed=frozenset(bad),
            reports=bad,
        )

    def _days(self) -> Days:
        good = goodput_of(self._lines, self._kept_h * 3600)
        assert good is not None, "the course has a start and an end"
        for cause in good.lost_s.keys() | self._lost.keys():
            if abs(good.lost_s.get(cause, 0.0) / 3600 - self._lost[cause]) > 1e-6:
                self._broken.append(
                    f"6: {good.lost_s.get(cause)} s of {cause}, {3600 * self._lost[cause]:.0f} were lost"
                )
        parts_s = good.kept_s + good.other_s + sum(good.lost_s.values())
        if abs(parts_s - good.elapsed_s) > 0.01 or abs(good.elapsed_s / 3600 - self._now_h) > 1e-6:
            self._broken.append(f"6: {parts_s} s are placed of {good.elapsed_s}")
        records = [read_record(self._place, host.name) for host in self._hosts]
        return Days(
            broken=tuple(dict.fromkeys(self._broken)),
            faults=dict(self._faults),
            num_strikes=sum(entry.what.value == "strike" for record in records for entry in record.entries),
            num_back=self._num_back,
            num_tests=self._num_tests,
            goodput=good,
        )

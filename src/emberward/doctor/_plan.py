"""What to test next with one probe, when to stop, and what follows: the examination as a value. Pure, seeded.

[Note: the order of an examination]
First every device is in one test: halves with few devices, pairs with many (two rounds of pairs, as DLRover screens).
While failures are open, the tests that tell most about them come next (`_choose`). When none is open, devices that have
not passed yet are screened, then rounds of single devices and of pairs by the circle method alternate: they give the
numbers and reach every link. Then each device gets a try a round, in sets as large as may be: what fails now and then
shows as soon there, in fewer tests, of which fewer fail by chance. A faint failure is followed in the same rounds. The
examination ends when a fault is settled and nothing else is open, or when each device is cleared (`_tries`).
"""

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from emberward.doctor._belief import Belief
from emberward.doctor._busy import Busy
from emberward.doctor._choose import (
    FEW,
    adjacent,
    circle_round,
    groups_of,
    halves,
    next_tests,
    rivalled,
    suspects_of,
    untried,
    wholes_of,
)
from emberward.doctor._faults import LINKS, Cluster, Kind, Part
from emberward.doctor._fleet import Fleet, Links, Result, Set, SetOutcome, Talk
from emberward.doctor._numbers import Numbers
from emberward.doctor._slow import Suspect, open_pairs, slow_parts
from emberward.doctor._tries import NEEDED_TRIES, RAREST, needed_tries, tries_left

CONFIDENCE = 0.99
SURE = 0.999
"""For a device that fails now and then, never alone: some of its links explain nearly the same, further tests tell."""
MAX_COMMON = 0.05
"""Nothing is accused while the probe itself may always fail with so much weight."""
RIVAL = 1e-5
"""With so much weight on a parted network it is tested before links are named."""
MAYBE_LINK = 0.3
"""With so much weight on links all pairs are tested, where no set tells MANY_BITS about them."""
MANY_BITS = 0.4
FEW_TESTS = 5
GOOD_BITS = 0.02
"""Tests that tell less about open failures come after the rounds that all devices take part in."""
MAX_ROUNDS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """What the plan must know of a probe: on which sets it makes sense, and the prior that it fails by itself."""

    name: str
    talk: Talk = Talk.ANY
    links: Links | None = None
    common_prior: float = 0.02


@dataclass(slots=True)
class Plan:
    """The examination of a fleet with one probe. Ask `next_round`, run it, `learn`; until `next_round` is empty."""

    fleet: Fleet
    probe: ProbePlan
    rng: random.Random
    left_out: frozenset[int] = frozenset()
    """Devices that are known to be bad already: no set holds them."""
    suspected: frozenset[int] = frozenset()
    """Devices that a run's judge named: each is tested first, apart from the others, with peers that nobody named."""
    is_quick: bool = False
    """Whether it is enough that each device has passed once, where nothing fails."""
    belief: Belief = field(init=False)
    numbers: Numbers = field(init=False)
    results: list[tuple[int, Result]] = field(default_factory=list)
    round: int = 0
    settled: dict[Part, float] = field(default_factory=dict)
    links: Links | None = None
    _busy: Busy = field(init=False)
    _turn: int = 0
    _is_screened: bool = False
    _wholes: set[Set] = field(default_factory=set)
    _apart: float = 0.0
    """The posterior that the network has parted, while it is open."""
    _cut: Part | None = None
    """Where it has."""
    _own: float = 0.0
    """The posterior that the probe itself fails now and then."""
    _may_be_own: bool = False
    """Whether that is what keeps a device that fails now and then from being accused."""
    _asks_across: bool = False
    """Whether a parted network is what keeps a part from being accused, or may be it."""
    _unproven: list[Part] = field(default_factory=list)
    """Links that larger sets name, and no pair yet."""
    _judged: tuple[tuple[int, frozenset[Part]], list[Cluster]] | None = None
    why_ended: str = ""

    def __post_init__(self) -> None:
        self.belief = Belief(self.fleet, common_prior=self.probe.common_prior)
        self.numbers = Numbers(self.fleet)
        self.links = self.probe.links
        self._busy = Busy(self.probe.talk)

    # -- what was seen -----------------------------------------------------------------------------------------------

    def learn(self, results: Sequence[Result]) -> None:
        """Takes in the results of the round that was asked for last."""
        self.round += 1
        self.results += [(self.round, result) for result in results]
        self.links = next((result.links for result in reversed(results) if result.links), self.links)
        for result in self._busy.learn(results):
            passed = result.outcome is SetOutcome.PASS
            self.belief.learn(result.devices, passed=passed, links=result.links or self.links, tries=result.tries)
            if passed:
                self.numbers.learn(self.round, result)
        self._settle()

    @property
    def busy(self) -> Collection[int]:
        """The devices that were in use when they were asked last."""
        return self._busy.asks

    def _settle(self) -> None:
        """Takes for known what the posterior says with CONFIDENCE; what was known is judged anew each time."""
        self._cut = self._judged = None
        clusters = self.clusters(with_settled=False)
        self._apart, cut, share = self.belief.parted(clusters) or (0.0, None, 0.0)
        own = {is_faint: self.belief.own(clusters, self._apart, is_faint=is_faint) for is_faint in (False, True)}
        found: dict[Part, float] = {}
        if cut is not None and self._apart * share * (1 - own[False]) >= CONFIDENCE:
            found[cut] = self._apart * share * (1 - own[False])
            self._cut, self._judged, self._apart = cut, None, 0.0
        self._asks_across = self._apart > MAX_COMMON
        self._own = own[False]
        named = [(part, p, each) for each in self.clusters(with_settled=False) for part, p in each.marginals().items()]
        likely = [each.is_faint_part(part) for part, p, each in named if p > 0.5 and part.kind is Kind.DEVICE]
        self._may_be_own = own[True] > 1 - CONFIDENCE and any(likely)
        if self.common() > MAX_COMMON:
            self.settled = {}
            return
        for part, p, cluster in named:
            if p < CONFIDENCE:
                continue
            needed = SURE if cluster.is_like_links(part) else self._confidence
            certain = p * (1 - self._apart) * (1 - own[cluster.is_faint_part(part)])
            if p >= needed and certain >= CONFIDENCE:
                found[part] = certain
            rival = RIVAL if part.kind in LINKS else p - CONFIDENCE
            self._asks_across |= p >= needed and self._apart > rival
        # Of larger sets that failed a link in common may be chance: others of each set may be bad.
        links = [part for part in found if part.kind in (Kind.LINK, Kind.CABLE)]
        self._unproven = [part for part in links if not self.belief.has_failed_alone(part)]
        self.settled = {part: p for part, p in found.items() if part not in self._unproven}

    @property
    def _confidence(self) -> float:
        """Among many devices chance strikes one twice in a thousand examinations, and a third failure costs no test."""
        return CONFIDENCE if len(self.fleet) <= FEW else SURE

    def clusters(self, *, with_settled: bool = True) -> list[Cluster]:
        """The failures that are not yet explained, or all of them."""
        known = frozenset(part for part in self.settled if part.kind in LINKS)
        key = (len(self.results), known)
        if self._judged is None or self._judged[0] != key:
            self._judged = (key, self.belief.clusters(known=known, cut=self._cut))
        clusters = self._judged[1]
        if not with_settled:
            return clusters
        return [each for each in clusters if not self._is_resolved(each)]

    def common(self) -> float:
        """The posterior that the probe always fails by itself, not for a part that it tests."""
        return self.belief.common(self.clusters(with_settled=False))

    def _is_resolved(self, cluster: Cluster) -> bool:
        """Whether parts that are known explain it, or chance does."""
        parts = cluster.explanations[0].parts
        return cluster.is_chance or (bool(parts) and parts <= set(self.settled))

    @property
    def convicted(self) -> frozenset[int]:
        """The devices that are known to be bad, those of a bad host too; ends of a bad link are not."""
        found = set(self.left_out)
        for part in self.settled:
            if part.kind is Kind.DEVICE:
                found.add(int(part.key[0]))
            elif part.kind is Kind.HOST:
                found |= {n for n, device in enumerate(self.fleet.devices) if device.host == part.key[0]}
        return frozenset(found)

    # -- what comes next ---------------------------------------------------------------------------------------------

    def next_round(self) -> list[Set]:
        """Disjoint sets to test at once; empty when the examination is over (`why_ended`)."""
        if self.round >= MAX_ROUNDS:
            return self._end("the limit of rounds is reached")
        if refused := self._busy.refused():
            return refused
        convicted = self.convicted
        free = [n for n in range(len(self.fleet)) if n not in self.busy and n not in convicted]
        is_few = len(self.fleet) <= FEW
        if not self._is_screened:
            self._is_screened = True
            return self._first(free) or self._end("no device is free")
        if self._own >= SURE and all(self._tries(n) >= self._tries_beside_own(is_few=is_few) for n in free):
            return self._end("the probe itself fails now and then, whoever is tested")
        if self._asks_across and (found := self._across(free)):
            return found
        if pairs := self.belief.pairs_of(self._unproven, free):
            return pairs
        open_clusters = self.clusters()
        if all(each.is_faint for each in open_clusters):
            if found := self._screen(free, is_few=is_few, is_open=bool(open_clusters)):
                return found
            if self.is_quick and not open_clusters:
                return self._end("each device has passed")
            tests = self._tests(open_clusters, free, is_thrifty=False)[0] if open_clusters else []
            if found := self._routine(free, tests, is_few=is_few, is_open=bool(open_clusters)):
                return found
            if not open_clusters:
                return []
        return self._seek(open_clusters, free, is_few=is_few)

    def _across(self, free: list[int]) -> list[Set]:
        """Pairs that tell where the network has parted, one device of each host."""
        assert self.belief.parting is not None
        hosts = list(dict.fromkeys(device.host for device in self.fleet.devices))
        first = {self.fleet.devices[n].host: n for n in reversed(free)}
        places = [place for place, host in enumerate(hosts) if host in first]
        return [(first[hosts[a]], first[hosts[b]]) for a, b in self.belief.parting.pairs(places, self.rng)]

    def _seek(self, clusters: list[Cluster], free: list[int], *, is_few: bool) -> list[Set]:
        """The tests that tell most about the open failures; then the screening of those that have not passed."""
        tests, bits = self._tests(clusters, free, is_thrifty=is_few)
        ranked = sorted(clusters[0].marginals().items(), key=lambda item: (-round(item[1], 6), item[0]))
        suspects = [int(part.key[0]) for part, _ in ranked if part.kind is Kind.DEVICE and part.key[0] in free]
        if found := self._busy.asked_again(suspects, is_needed=not tests or len(free) <= 2):
            return found
        is_link = any(each.links_weight > MAYBE_LINK for each in clusters)
        if is_link and bits < MANY_BITS and (found := self._untried(free)):
            return found
        if bits >= GOOD_BITS:
            return tests if is_few else [*tests, *self._beside(tests, clusters, free)]
        if self.common() > MAX_COMMON and (found := self._sound(clusters, free)):
            return found
        if found := self._screen(free, is_few=is_few, is_open=True):
            return found
        if self.common() > 0.5:
            return self._doubted(free)
        # Where several of few are bad, what tells most may be a pair that nobody suspects.
        if is_few and (found := self._untried(free)):
            return found
        return tests or self._end("no further test tells the open parts apart")

    def _beside(self, tests: list[Set], clusters: Sequence[Cluster], free: list[int]) -> list[Set]:
        """Beside these tests, the devices that nothing is open about and that no passed test holds yet."""
        if self.probe.talk is Talk.ALONE or self._cut is not None:
            return []
        busy = {n for devices in tests for n in devices} | suspects_of(self.belief, clusters)
        unmet = [n for n in self._unmet(free) if n not in busy]
        return [whole for whole in wholes_of(unmet) if len(whole) > 1]

    def _sound(self, clusters: Sequence[Cluster], free: list[int]) -> list[Set]:
        """Those that have passed, again: a probe that fails everywhere would fail there too."""
        bad = {n for each in clusters for part, p in each.marginals().items() if p > 0.5 for n in part.key}
        together = self.probe.talk is not Talk.ALONE
        sound = [n for n in free if n not in bad and self.belief.has_passed(n, together=together)]
        return wholes_of(sound) if together and len(sound) > 1 else [(n,) for n in sound]

    def _screen(self, free: list[int], *, is_few: bool, is_open: bool) -> list[Set]:
        """The devices that no passed test holds yet; then all of them together, once."""
        unmet = self._unmet(free)
        if unmet and not self._screen_failed(unmet):
            return self._cover(unmet, free)
        if self.common() > 0.5:
            return []
        # All that is left together: clears what a verdict rests on, as seed 2's seven cards did without the eighth.
        is_linked = any(part.kind not in (Kind.DEVICE, Kind.HOST) for part in self.settled)
        if is_open or is_linked or self.probe.talk is Talk.ALONE:
            return []
        if tuple(free) in self._wholes:
            return []
        # In company that the devices did not have before, where groups are many.
        mixed = free if is_few else self.rng.sample(free, len(free))
        wholes = [whole for whole in wholes_of(mixed) if len(whole) > 2 and not self._is_known(whole)]
        self._wholes.add(tuple(free))
        self._wholes |= set(wholes)
        return wholes

    def _is_known(self, whole: Set) -> bool:
        """Whether the set was tested as a whole, or passed within a larger one."""
        passed = (set(result.devices) for _, result in self.results if result.outcome is SetOutcome.PASS)
        return whole in self._wholes or any(each.issuperset(whole) for each in passed if len(each) >= len(whole))

    def _first(self, free: list[int]) -> list[Set]:
        named = [n for n in free if n in self.suspected]
        others = [n for n in free if n not in self.suspected]
        if named and len(others) >= len(named):
            if self.probe.talk is Talk.ALONE:
                return [(n,) for n in free]
            # What is likeliest to be bad tells most by itself: each with one peer, and the others by themselves.
            pairs: list[Set] = [(min(pair), max(pair)) for pair in zip(named, others, strict=False)]
            rest = others[len(named) :]
            return [*pairs, *self._first_of(rest)] if len(rest) > 1 else pairs
        return self._first_of(free)

    def _first_of(self, free: list[int]) -> list[Set]:
        if self.probe.talk is Talk.ALONE or len(free) == 1:
            return [(n,) for n in free] if self.probe.talk is not Talk.TOGETHER else []
        if len(free) <= 3:
            return [tuple(free)] if free else []
        return halves(free) if len(free) <= FEW else adjacent(free)

    def _tests(self, clusters: Sequence[Cluster], free: list[int], *, is_thrifty: bool) -> tuple[list[Set], float]:
        """The tests that tell most about these failures, and the bits that they tell."""
        return next_tests(
            self.belief,
            clusters,
            free=free,
            convicted=self.convicted,
            talk=self.probe.talk,
            links=self.links,
            is_thrifty=is_thrifty,
            rng=self.rng,
        )

    def _unmet(self, free: list[int]) -> list[int]:
        """Free devices that no passed test holds."""
        together = self.probe.talk is not Talk.ALONE and len(free) > 1
        unmet = [n for n in free if not self.belief.has_passed(n, together=together)]
        if unmet and any(part.kind not in (Kind.DEVICE, Kind.HOST) for part in self.settled):
            # Below a bad switch nobody passes in company.
            tested = Counter(
                n for _, result in self.results if result.outcome is SetOutcome.FAIL for n in result.devices
            )
            unmet = [n for n in unmet if tested[n] < 2]
        return unmet

    def _doubted(self, free: list[int]) -> list[Set]:
        """Before the probe is to blame: each device alone, and each pair where these are few."""
        tested = {result.devices for _, result in self.results}
        alone: list[Set] = [(n,) for n in free if (n,) not in tested] if self.probe.talk is not Talk.TOGETHER else []
        pairs = self._untried(free) if len(free) <= FEW else []
        return alone or pairs or self._end("the probe fails everywhere")

    def _screen_failed(self, unmet: list[int]) -> bool:
        """Whether these devices have been screened and cannot be told more of."""
        last = [result for round_, result in self.results[-2:] if set(unmet) <= set(result.devices)]
        return len(last) == 2 and all(result.outcome is SetOutcome.FAIL for result in last)

    def _cover(self, unmet: list[int], free: list[int]) -> list[Set]:
        if self.probe.talk is Talk.ALONE:
            return [(n,) for n in unmet]
        good = [n for n in free if n not in unmet]
        if len(unmet) == 1 and (len(free) > FEW or not good):
            if not good:
                return [(unmet[0],)] if self.probe.talk is Talk.ANY else self._end("a device has no partner")
            mate = self.rng.choice(good)
            return [(min(unmet[0], mate), max(unmet[0], mate))]
        if len(free) <= FEW:
            self._wholes.add(tuple(free))
            return [tuple(free)]
        return adjacent(unmet)

    def _routine(self, free: list[int], tests: list[Set], *, is_few: bool, is_open: bool) -> list[Set]:
        """Rounds that give numbers and tries, until something is settled or nothing is left to see.

        `tests`: those of the open failures, beside which the other devices are tried. `is_open`: failures are not
        explained yet, so that nothing ends because all is.
        """
        if self.common() > 0.5:
            return tests or self._doubted(free)
        is_alone = self.probe.talk is not Talk.TOGETHER
        is_together = self.probe.talk is not Talk.ALONE and len(free) > 1
        slow = self.slow()
        numbers_open = open_pairs(self.numbers, free, self.rng)
        devices = self.numbers.devices() if is_alone else {}
        ends = self.numbers.ends()
        is_undecided = bool(numbers_open) or any(each.is_open for each in (*devices.values(), *ends.values()))
        rounds_alone = max((len(rows) for rows in self.numbers.alone.values()), default=0)
        counts = [self.numbers.alone.get(n, ()) for n in free]
        has_numbers = bool(self.numbers.raw)
        needs_numbers = (
            has_numbers and is_alone and len(free) > 2 and (rounds_alone < 6 or min(map(len, counts), default=0) < 6)
        )
        # Bad links come in bunches: a bad batch of cables, a bad board.
        if (
            any(part.kind in LINKS for part in self.settled)
            and self._cut is None
            and not is_open
            and (found := self._untried(free))
        ):
            return found
        if is_few and not is_open and len(self.results) < FEW_TESTS and (alone := self._never_alone()):
            return [(n,) for n in alone]
        # Two links with a common end give the same answers as that end, until a third partner is asked.
        settled = self.clusters(with_settled=False) if is_few and not is_open else []
        if pairs := rivalled(self.belief, settled, self.convicted, free, least=1 - SURE):
            return pairs
        # What fails now and then may have company of its kind that has not shown yet.
        tried = {n: self._tries(n) for n in free}
        left = tries_left(self.belief, self.settled, self.clusters(with_settled=False), self.clusters(), tried)
        is_explained = bool(self.settled) and not is_open and not any(left.values())
        if is_explained and (not has_numbers or (is_few and not self.numbers.is_uneven)):
            return self._end("every failure is explained, and the others have passed")
        matrix = is_together and has_numbers and (is_few or not slow) and self.numbers.misses_pairs(free)
        is_measured = not (needs_numbers or is_undecided or matrix)
        if is_measured and (slow or is_explained) and not is_open:
            return self._end("what was found is certain, and the others are within the noise")
        if is_measured and not any(left.values()):
            return self._end(f"each device has passed {min(tried.values(), default=0)} tries")
        if is_undecided and rounds_alone > 80:
            return self._end("the noise does not let the numbers be decided")
        self._turn += 1
        taken = {n for devices in tests for n in devices}
        rest = [n for n in free if n not in taken]
        # The groups that slow links part are seen only when every pair has been measured.
        if numbers_open and not tests and self._turn % 2 and not (matrix and is_few):
            return numbers_open
        behind = [n for n in rest if left[n]] if is_measured else [*rest]
        if is_measured and is_alone and self._may_be_own and self._turn % 2:
            # Where one fails alone of many that pass, the probe is not to blame, nor that its sets do not always meet.
            return [(n,) for n in free]
        if is_measured and is_together and self._may_group(free):
            self.rng.shuffle(behind)
            apart = suspects_of(self.belief, self.clusters())
            # Few devices fit into one set, whose failure would not tell which of those in doubt it was.
            apart |= {n for n in free if is_few and left[n] > NEEDED_TRIES}
            return [*tests, *groups_of(behind, rest, apart=apart, is_alone=is_alone and self._turn % 2 == 0)]
        if is_together and (self._turn % 2 or not is_alone):
            behind += [n for n in rest if n not in behind][: len(behind) == 1]
            return [*tests, *circle_round(behind, self._turn // (2 if is_alone else 1))]
        return [*tests, *((n,) for n in behind)]

    def _may_group(self, free: list[int]) -> bool:
        """Whether tries are given to many devices in one test: a set clears its links, and nobody was busy lately."""
        if any(part.kind not in (Kind.DEVICE, Kind.HOST) for part in self.settled):
            return False
        if any(result.busy for _, result in self.results[-len(free) :]):
            return False
        return self.links is Links.ALL or bool(self.settled) or not self._untried(free)

    def _tries(self, number: int) -> int:
        """The passed tries of a device that count: those in company alone where the probe needs it."""
        is_together = self.probe.talk is Talk.TOGETHER and len(self.fleet) > 1
        return self.belief.tries[number, True] + (0 if is_together else self.belief.tries[number, False])

    def _tries_beside_own(self, *, is_few: bool) -> int:
        """The tries that clear a device of a fault as frequent as the probe's own: a rarer one cannot be told there.

        Of few devices most may be bad, which looks like a probe that fails on everybody until the others have passed.
        """
        number, _ = self.belief.tally.one_in()
        return NEEDED_TRIES if is_few else needed_tries({max(1 / number, RAREST): 1.0})

    def _never_alone(self) -> list[int]:
        """Bad devices of which it is not known whether they fail alone too."""
        if self.probe.talk is not Talk.ANY:
            return []
        bad = [int(part.key[0]) for part in self.settled if part.kind is Kind.DEVICE]
        return [n for n in bad if all(result.devices != (n,) for _, result in self.results)]

    def _untried(self, free: list[int]) -> list[Set]:
        return untried(self.belief, free) if self.probe.talk is not Talk.ALONE else []

    def _end(self, why: str) -> list[Set]:
        self.why_ended = why
        return []

    # -- what follows ------------------------------------------------------------------------------------------------

    def slow(self) -> list[Suspect]:
        """Devices, hosts and links that their numbers show to be slow."""
        return slow_parts(self.fleet, self.numbers)

    def suspects(self) -> list[Suspect]:
        """What is known to be bad, certain enough to act on."""
        failing = [Suspect(part=part, certainty=p) for part, p in sorted(self.settled.items())]
        bad = {n for each in failing if each.part.kind is Kind.DEVICE for n in each.part.key}
        slow = [each for each in self.slow() if bad.isdisjoint(each.part.key)]
        return [*failing, *slow]

    def open_parts(self) -> list[Suspect]:
        """What may be bad and could not be told: parts above 2%, likeliest first."""
        found = [
            Suspect(part=part, certainty=p)
            for cluster in self.clusters()
            for part, p in cluster.marginals().items()
            if p >= 0.02 and part not in self.settled
        ]
        return sorted(found, key=lambda each: (-each.certainty, each.part))

"""What members say of themselves: those that say the same are alike, and values are compared among them alone. Pure.

[Note: like with like]
A host of another model, clock or class gives other values, and is sound. A probe says so by `detail`: the words of it
that stay the same in all answers of every member are what a member says of itself. A word that changes in the answers
of any member is measured, and the name of a host or a device is no kind. Where most members would be left without
LEAST_ALIKE that say the same, the words tell one member from another (serial numbers), and all are compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from emberward.doctor._fleet import Fleet

LEAST_ALIKE = 3
"""So many values at least can be compared: of two nothing tells which is off."""
MAX_WORDS = 40
"""Words of an answer that are looked at."""

Words = tuple[str, ...]


class Kinds:
    """Learns from the answers what each member says of itself. See [Note: like with like]."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._first: dict[int, Words] = {}
        self._measured: dict[int, set[int]] = defaultdict(set)
        """By the number of words of an answer, the places at which a word has changed."""
        self._of: dict[int, str] | None = None

    def learn(self, details: Mapping[int, str]) -> None:
        """Takes in the details of the members of a test that passed, by device."""
        for number, detail in details.items():
            words = tuple(self._without_name(number, word) for word in detail.split()[:MAX_WORDS])
            first = self._first.setdefault(number, words)
            if words != first:
                changed = {place for place, pair in enumerate(zip(first, words, strict=False)) if pair[0] != pair[1]}
                # With other words before it, no place means what it did.
                self._measured[len(first)] |= changed if len(first) == len(words) else set(range(len(first)))
                self._of = None
            elif number not in (self._of or {}):
                self._of = None

    def _without_name(self, number: int, word: str) -> str:
        device = self._fleet.devices[number]
        return "" if word.strip("(),;:") in (device.host, str(device), str(device.index)) else word

    def of(self, number: int) -> str:
        """What the member says of itself; the same for all where it does not tell kinds."""
        if self._of is None:
            self._of = self._judged()
        return self._of.get(number, "")

    def _judged(self) -> dict[int, str]:
        said = {
            number: " ".join(w for place, w in enumerate(words) if w and place not in self._measured[len(words)])
            for number, words in self._first.items()
        }
        alike = Counter(said.values())
        comparable = sum(count for count in alike.values() if count >= LEAST_ALIKE)
        return said if 2 * comparable > len(said) else dict.fromkeys(said, "")

    def groups(self, numbers: Iterable[int]) -> dict[str, list[int]]:
        """The members that say the same, by what they say."""
        found: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            found[self.of(number)].append(number)
        return dict(found)

"""Which findings are over, since the job went on: a later one says so, and quotes them."""

from collections.abc import Iterable

from emberward.findings._finding import Finding

GOES_ON = "H128"
QUOTED_CHARS = 160
"""How much of a finding's message the one that says that the job goes on repeats."""


def is_over(earlier: Finding, later: Finding) -> bool:
    """Whether `later` says that what `earlier` found is over."""
    return later.code == GOES_ON and later.message.endswith(earlier.message[:QUOTED_CHARS])


def without_those_over(said: Iterable[Finding]) -> list[Finding]:
    """Of findings in the order in which they were said, those that no later one says to be over."""
    standing: list[Finding] = []
    for finding in said:
        standing = [each for each in standing if not is_over(each, finding)]
        standing.append(finding)
    return standing

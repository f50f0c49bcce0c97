"""What ``train`` asks of its hosts before a launch, and between attempts: are they alike, and is one of them sick?"""

from collections.abc import Callable, Collection, Mapping

from emberward.cli._console import Screen
from emberward.cli._examination import (
    THIS_HOST,
    Asked,
    Examined,
    Ground,
    ask_facts,
    enter,
    examine_ground,
    keep,
    keep_hosts,
    suspects_in,
    tell,
)
from emberward.doctor import SCREEN, HostFacts, Load, host_findings
from emberward.findings import Finding, Severity
from emberward.match import explain_finding
from emberward.processes import ProcessTree
from emberward.report import RunFolder
from emberward.runs import strike_of
from emberward.supervise import Team, launcher_of, without

SCREEN_S = 24.0
"""For the tests of a screen; with the hosts' own answers and the end of a test it stays below half a minute."""


class Screening:
    """The doctor beside one ``train``. Hosts are always compared; `is_asked` (``--screen``): tested, under `load`."""

    def __init__(
        self,
        folder: RunFolder,
        environment: Mapping[str, str],
        screen: Screen,
        *,
        is_asked: bool,
        load: Load | None = None,
        examine: Callable[[Ground, Asked, Screen], Examined] = examine_ground,
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._screen = screen
        self._is_asked = is_asked
        self._test = examine
        self._load = load
        self._told: Mapping[str, HostFacts] = {}

    def before_start(self, team: Team | None) -> tuple[Team | None, tuple[Finding, ...]]:
        """The team that starts, and errors for which nothing may: a bad part that cannot be left out. Blocks."""
        ground = self._ground(team)
        if not self._is_asked:
            with ProcessTree() as tree:
                self._told, _ = ask_facts(ground, tree)
            for finding in host_findings(self._told):
                self._screen.complain(explain_finding(finding))
            return team, ()
        examined = self._examine(ground, frozenset())
        bad = _errors(examined)
        if team is None:
            return None, bad
        struck = enter(examined, self._folder.runs, self._screen, by=self._by)
        present = {host.name for host in team.hosts}
        spare = len(team.spares) - sum(host.name in struck for host in team.spares)
        if not struck:
            return team, tuple(finding for finding in bad if present & set(finding.hosts))
        if len(present & set(struck)) > spare:
            return team, bad
        team = without(team, struck)
        self._screen.say(f"{'hosts':<11} {', '.join(host.name for host in team.hosts)}")
        return team, tuple(finding for finding in bad if strike_of(finding) not in struck)

    def keep_hosts(self, attempt: int) -> None:
        """Writes what the hosts told into the run's folder, for a later ``doctor RUN --baseline``."""
        if self._told:
            keep_hosts(self._told, self._folder, attempt)

    def after_failure(self, team: Team | None, lost: Collection[str]) -> list[str]:
        """The hosts that a test found bad after an attempt that failed, those first that its judge named. Blocks."""
        if not self._is_asked:
            return []
        ground = self._ground(team, lost)
        _, suspects = suspects_in(self._folder)
        if not ground.hosts:
            return []
        if suspects:
            self._screen.say(f"{'suspects':<11} {', '.join(sorted(suspects))}")
        examined = self._examine(ground, suspects)
        if team is None:
            return sorted({host for finding in _errors(examined) for host in finding.hosts})
        return [host for host in enter(examined, self._folder.runs, self._screen, by=self._by) if host not in lost]

    @property
    def _by(self) -> str:
        return f"train --screen of {self._folder.name}/{self._folder.id}"

    def _examine(self, ground: Ground, suspects: frozenset[str]) -> Examined:
        asked = Asked(
            budget_s=SCREEN_S,
            probe_limit_s=SCREEN_S,
            only=SCREEN,
            suspects=suspects,
            is_quick=True,
            load=self._load,
        )
        examined = self._test(ground, asked, self._screen)
        self._told = examined.told
        tell(examined, self._screen)
        self._folder.path.mkdir(parents=True, exist_ok=True)
        keep(examined, self._folder)
        return examined

    def _ground(self, team: Team | None, lost: Collection[str] = ()) -> Ground:
        if team is None:
            return Ground(hosts=(THIS_HOST,), launcher=launcher_of("local"), environment=self._environment)
        hosts = [host for host in (*team.hosts, *team.spares) if host.name not in lost]
        return Ground(
            hosts=tuple(host.name for host in hosts),
            launcher=team.launcher,
            environment=self._environment,
            addresses={host.name: host.address for host in hosts},
        )


def _errors(examined: Examined) -> tuple[Finding, ...]:
    return tuple(finding for finding in examined.findings if finding.severity is Severity.ERROR)

"""Where everything of a run lies. The files and their keys are described in ``docs/runs.md``."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The paths inside one run's folder, ``runs/<name>/<id>/``. Makes and reads nothing."""

    path: Path

    @property
    def id(self) -> str:
        """The run's id: the folder's own name."""
        return self.path.name

    @property
    def name(self) -> str:
        """The run's name: the folder above the id."""
        return self.path.parent.name

    @property
    def config(self) -> Path:
        """The resolved recipe; each value with its origin."""
        return self.path / "config.resolved.yaml"

    @property
    def proof(self) -> Path:
        """Which recipe was proved before the start."""
        return self.path / "proof.json"

    @property
    def certificate(self) -> Path:
        """The proved order of calls of each role, which the ranks compare while they run."""
        return self.path / "certificate.json"

    @property
    def preflight(self) -> Path:
        """The pre-flight page, and what the first steps measured of it."""
        return self.path / "preflight.json"

    @property
    def manifest(self) -> Path:
        """What ``report --bundle`` packed and took out; only a bundle has it."""
        return self.path / "MANIFEST.json"

    @property
    def profile(self) -> Path:
        """What ``emberward profile`` found last in the run: its JSON document."""
        return self.lens / "profile.json"

    @property
    def examination(self) -> Path:
        """What ``emberward doctor --json`` said of the run's machines, where somebody put it here."""
        return self.path / "doctor.json"

    @property
    def boxing(self) -> Path:
        """Every change of layout of a training step, as CSV."""
        return self.path / "boxing.csv"

    @property
    def data(self) -> Path:
        """Where the prepared data's manifest lies."""
        return self.path / "data.json"

    @property
    def launch(self) -> Path:
        """Which launch of plain torchrun or srun began or went on with the run last."""
        return self.path / "launch.json"

    @property
    def metrics(self) -> Path:
        """One object a step, by rank 0."""
        return self.path / "metrics.jsonl"

    @property
    def logged(self) -> Path:
        """The loss curve of a program under `emberward run`, as its watcher read it in the program's own logs."""
        return self.path / "logged.jsonl"

    @property
    def curve(self) -> Path:
        """The file with the loss of each step: the metrics, else what the program logged."""
        return self.logged if not self.metrics.exists() and self.logged.exists() else self.metrics

    @property
    def evals(self) -> Path:
        """One object an evaluation, by rank 0."""
        return self.path / "evals.jsonl"

    @property
    def progress(self) -> Path:
        """What rank 0 does now."""
        return self.path / "progress.json"

    @property
    def summary(self) -> Path:
        """How the last attempt ended; absent while a run is going or after it broke."""
        return self.path / "summary.json"

    @property
    def findings(self) -> Path:
        """One finding a line, appended when seen."""
        return self.path / "findings.jsonl"

    @property
    def attempts(self) -> Path:
        """Two lines an attempt: its start and its end."""
        return self.path / "attempts.jsonl"

    @property
    def command(self) -> Path:
        """What `emberward run` started here, and where; a recipe's run has none."""
        return self.path / "command.json"

    @property
    def doctor(self) -> Path:
        """The last examination of the hosts of this run: the document that ``emberward doctor --json`` prints."""
        return self.path / "doctor.json"

    @property
    def doctor_table(self) -> Path:
        """The same for people: the evidence for whoever repairs the machine."""
        return self.path / "doctor.txt"

    def hosts_file(self, attempt: int) -> Path:
        """What each host told of itself before this attempt: host -> driver, libraries, mounts, ..."""
        return self.path / "hosts-before" / f"attempt-{attempt}.json"

    @property
    def supervisor(self) -> Path:
        """That the supervisor is alive, written again every two seconds."""
        return self.path / "supervisor.json"

    @property
    def acknowledged(self) -> Path:
        """Findings that a person has taken up, and until when nobody else need hear of them."""
        return self.path / "acknowledged.jsonl"

    @property
    def runs(self) -> Path:
        """The place of all runs, whatever their name; the ledger of hosts lies there."""
        return self.path.parent.parent

    @property
    def kill_switch(self) -> Path:
        """The file that, while it exists, stops this run's name: no start, and what runs saves and ends."""
        return self.path.parent / "kill-switch"

    @property
    def detours(self) -> Path:
        """The rewinds that hold, in order; absent without any."""
        return self.path / "detours.json"

    @property
    def set_aside(self) -> Path:
        """What rewinds took out of the run, a folder each, to be put back when one is undone."""
        return self.path / "rewound"

    @property
    def lens(self) -> Path:
        """What `emberward profile` sampled: one file and one ring a rank."""
        return self.path / "lens"

    @property
    def inspections(self) -> Path:
        """What people ask of the running job, and what its ranks answer, a folder each."""
        return self.path / "inspections"

    @property
    def lock(self) -> Path:
        """Held by the launcher while it runs."""
        return self.path / "launch.lock"

    @property
    def ranks(self) -> Path:
        """Who the ranks of this attempt are, one file each."""
        return self.path / "ranks"

    @property
    def failures(self) -> Path:
        """The exceptions that ended ranks of this attempt, one file each."""
        return self.path / "failures"

    @property
    def logs(self) -> Path:
        """Output of the ranks and of the launch agent."""
        return self.path / "logs"

    @property
    def agent_log(self) -> Path:
        """Output of the launch agent."""
        return self.logs / "agent.log"

    @property
    def early_logs(self) -> Path:
        """What ranks wrote before they opened logs of their own."""
        return self.logs / "launch"

    @property
    def checkpoints(self) -> Path:
        """Saves, one folder each."""
        return self.path / "checkpoints"

    @property
    def events(self) -> Path:
        """Recorded events, one file a rank."""
        return self.path / "events"

    @property
    def lag(self) -> Path:
        """Who was waited for in each step, by each host's watcher."""
        return self.path / "lag"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's event files, when that sink is on."""
        return self.path / "tensorboard"

    def rank_file(self, rank: int) -> Path:
        """Who `rank` is."""
        return self.ranks / f"rank{rank:05d}.json"

    def rank_log(self, rank: int) -> Path:
        """Standard output and error of `rank`."""
        return self.logs / f"rank{rank:05d}.log"

    def failure_file(self, rank: int) -> Path:
        """The exception that ended `rank`."""
        return self.failures / f"rank{rank:05d}.json"

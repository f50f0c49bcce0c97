"""Incidents of jobs: real gloo ranks, of a user's program under ``emberward run`` or of a recipe."""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.findings import Cause, Finding, Severity
from emberward.processes import ProcessTree
from emberward.report import RunFolder, read_json, read_lines
from emberward.testing._incidents import Expected, Incident, IncidentRunner, NoVerdict, Replayed

POLL_S = 0.02
SHOWN_LINES = 5
TOLD_CHARACTERS = 4000
Meddle = Callable[[], bool]
"""Does something once its time has come, and then returns True."""
INCIDENT_PROGRAMS = Path(__file__).parent / "incident_programs"
SMALL = (
    "model.num_layers=2",
    "model.hidden=32",
    "model.seq_len=32",
    "batch.global_batch=8",
    "batch.micro_batch=2",
    "optim.warmup_samples=0",
    "layout.dp=1",
    "layout.tp=1",
    "layout.pp=2",
    "sample_tokens=0",
    "evaluation.interval=1000",
    "steps=100",
    "save.interval=40",
)
"""A run of two ranks and a hundred short steps, saved each forty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command of ours ended."""

    code: int
    document: dict[str, Any]
    errors: str

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of its document."""
        return tuple(Finding.from_json(each) for each in self.document.get("findings", ()))


def emberward(theatre: IncidentRunner, *words: str, meddle: Meddle | None = None) -> Ended:
    """How ``emberward WORDS --json`` ended, in the theatre's folder. `meddle` is called until it returns True.

    Blocks, at most the theatre's limit; then raises NoVerdict. Everything that was started has ended afterwards, and
    what it put into the folder for temporary files lies in the theatre's.
    """
    verb, *rest = words
    theatre.tell("$ emberward " + " ".join(words))
    temporary = theatre.folder / "tmp"
    temporary.mkdir(exist_ok=True)
    is_done = meddle is None

    def wait(passed_s: float) -> None:
        nonlocal is_done
        is_done = is_done or (meddle is not None and meddle())
        theatre.on_wait(f"emberward {verb}", passed_s)

    with ProcessTree() as tree:
        done = tree.run(
            (sys.executable, "-m", "emberward", verb, "--json", *rest),
            environment={**theatre.environment, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)},
            folder=theatre.folder,
            timeout_s=theatre.limit_s,
            on_wait=wait,
            every_s=POLL_S,
        )
        num_left = len(tree.processes())
    errors = done.errors.decode(errors="replace")
    if done.code is None:
        said = errors.strip().splitlines()[-SHOWN_LINES:]
        raise NoVerdict("\n  ".join([_late(verb, theatre.limit_s, num_left), *said]))
    last = done.out.decode(errors="replace").strip().splitlines()[-1:] or ["{}"]
    return Ended(code=done.code, document=json.loads(last[0]), errors=errors)


def _late(verb: str, limit_s: float, num_ended: int) -> str:
    return (
        f"no verdict within {limit_s:.0f} s: emberward {verb} and the {num_ended} processes of its job were ended. "
        f"A slow or busy machine needs more: emberward incident run NAME --limit-s {2 * limit_s:.0f}. It said last:"
    )


def facts(*each: tuple[bool, str]) -> tuple[str, ...]:
    """The texts of the facts that do not hold."""
    return tuple(text for holds, text in each if not holds)


# -- users' programs -------------------------------------------------------------------------------------------------


def _run_program(theatre: IncidentRunner, command: Sequence[str], *, is_ended: bool) -> Replayed:
    """A user's command under ``emberward run``, which ends it once it is sure, when `is_ended`."""
    ended = emberward(theatre, "run", "--act-after", "1", "--grace-s", "1", "--", *command)
    is_right = (ended.code != 0) is is_ended and "run" in ended.document
    if not is_right:
        theatre.tell(ended.errors[-TOLD_CHARACTERS:])
    broken = facts((is_right, f"the command ended with code {ended.code}"))
    return Replayed(findings=ended.findings, broken_facts=broken)


def _bloom_eval(*victim: str) -> Callable[[IncidentRunner], Replayed]:
    ranks = ("--nproc-per-node", "8", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0")
    command = (sys.executable, "-m", "torch.distributed.run", *ranks, str(INCIDENT_PROGRAMS / "bloom_eval.py"), *victim)
    return lambda theatre: _run_program(theatre, command, is_ended=bool(victim))


def _bloom_limbo(*victim: str) -> Callable[[IncidentRunner], Replayed]:
    command = (sys.executable, str(INCIDENT_PROGRAMS / "bloom_limbo.py"), *victim)
    return lambda theatre: _run_program(theatre, command, is_ended=bool(victim))


BLOOM_EVAL = Incident(
    name="bloom-eval-hang",
    what="an evaluation hangs: one rank's data worker inherited a held lock",
    source="chronicles of the BLOOM-176B training, 18 May 2022",
    story=(
        "In an evaluation one rank of 384 waits for a batch, all others wait for that rank in collectives. "
        "Its data worker was forked while another thread held a lock, and inherited a lock that nobody will release. "
        "Here rank 5 of 8, at tp 2, pp 2, dp 2."
    ),
    seconds=75,
    expected=Expected(codes=("H101",), causes=(Cause.DATALOADER_WORKER,), culprit_ranks=(5,), site="bloom_eval.py"),
    replay=_bloom_eval("5"),
    twin=_bloom_eval(),
)
"""The twin forks its workers while nobody holds the lock."""

BLOOM_LIMBO = Incident(
    name="bloom-limbo",
    what="a rank is dead, and the job goes on existing",
    source="chronicles of the BLOOM-176B training",
    story=(
        "A rank dies, and the job goes on existing: its launcher waits for all ranks, the others wait for help. "
        "The nodes are paid for until somebody looks. "
        "Supervised, the attempt ends within seconds and the rank that died first is named."
    ),
    seconds=25,
    expected=Expected(codes=("L102", "L106"), causes=(Cause.KILLED,), culprit_ranks=(2,)),
    replay=_bloom_limbo("2"),
    twin=_bloom_limbo(),
)
"""In the twin nobody dies."""


def _print_loss(*words: str) -> Callable[[IncidentRunner], Replayed]:
    """The program under ``emberward profile``: what costs its steps most, and in the twin all that costs them."""

    def replay(theatre: IncidentRunner) -> Replayed:
        ended = emberward(
            theatre, "profile", "--steps", "25", "--", sys.executable, str(INCIDENT_PROGRAMS / "print_loss.py"), *words
        )
        costly = [finding for finding in ended.findings if finding.cost_ms_per_step is not None]
        return Replayed(
            findings=tuple(costly if words else costly[:1]),
            broken_facts=facts(
                (ended.code == 0, f"the program ended with code {ended.code}"),
                (ended.document.get("profile", {}).get("steps") == 25, "its steps were not measured"),
            ),
        )

    return replay


PRINT_LOSS = Incident(
    name="print-loss-stall",
    what="print(loss) in each step makes the device run dry",
    source="OneFlow's streams and threads, tmp_compute_stream",
    story=(
        "The loss is printed each step. Its copy to the host stands in the device's queue behind the backward, so the "
        "host waits for all that the device has to do, and the device waits while the host gets the next step ready. "
        "Here the device is a thread whose kernels are timed waits."
    ),
    seconds=25,
    expected=Expected(
        codes=("P101",),
        causes=(Cause.PRINT,),
        culprit_ranks=(0,),
        site="print_loss.py:62",
        severity=Severity.WARNING,
    ),
    replay=_print_loss(),
    twin=_print_loss("lane"),
)
"""The twin copies the loss in front of the backward and prints it from a lane."""


def _zero3_slow(*words: str) -> Callable[[IncidentRunner], Replayed]:
    """The program under ``emberward profile``: what its sharding wastes, and whether all that was planted is named."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    planted = frozenset() if words else frozenset({Cause.GATHERED_TWICE, Cause.SMALL_PARAMETERS})

    def replay(theatre: IncidentRunner) -> Replayed:
        ended = emberward(
            theatre, "profile", "--steps", "10", "--", *launch, str(INCIDENT_PROGRAMS / "zero3_slow.py"), *words
        )
        wasted = [finding for finding in ended.findings if finding.code == "P103"]
        named = {finding.cause for finding in wasted}
        gathers = ((ended.document.get("profile") or {}).get("sharding") or {}).get("gathers_per_step")
        return Replayed(
            # One of the two is the verdict; that both are named is a fact of its own below.
            findings=tuple(wasted if words else wasted[:1]),
            broken_facts=facts(
                (ended.code == 0, f"the program ended with code {ended.code}"),
                (named == planted, f"planted {sorted(planted)}, named {sorted(named)}"),
                (gathers == (6 if words else 72), f"{gathers} gathers a step"),
            ),
        )

    return replay


ZERO3_SLOW = Incident(
    name="zero3-half-speed",
    what="ZeRO-3 gathers tiny units again and again, at half the speed",
    source="OneFlow's engineers on DeepSpeed's ZeRO-3, RoBERTa-like at half the speed of ZeRO-2",
    story=(
        "Every layer is a unit of its own, norms of two KiB among them, and gives its parameters back after each "
        "forward and backward, with memory to spare. A step of two micro-batches gathers 72 times what 6 gathers would "
        "give. Nobody could say where the time went. Here FSDP2 with such settings; the twin has one unit a block, "
        "kept until the step is over, and the same losses."
    ),
    seconds=60,
    expected=Expected(
        codes=("P103",),
        causes=(Cause.GATHERED_TWICE, Cause.SMALL_PARAMETERS),
        culprit_ranks=(0, 1),
        site="zero3_slow.py",
        severity=Severity.WARNING,
    ),
    replay=_zero3_slow(),
    twin=_zero3_slow("cured"),
)


# -- recipes ---------------------------------------------------------------------------------------------------------


def write_text(folder: Path) -> str:
    """A dozen small files of text below the folder, which it gives back."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(12):
        lines = [f"line {line} of file {number} says {line * number % 97} times {line % 13}" for line in range(60)]
        (folder / f"text{number:02d}.txt").write_text("\n".join(lines), encoding="utf-8")
    return str(folder)


def train_words(theatre: IncidentRunner, name: str, *more: str) -> tuple[str, ...]:
    """The words of ``emberward train`` for SMALL on that text, with `more` of them."""
    text = write_text(theatre.folder / "text")
    return (
        "train",
        "bloom_tiny",
        *SMALL,
        f"data.train={text}",
        "data.held_out=0.2",
        f"name={name}",
        "--no-check",
        *more,
    )


def only_run(theatre: IncidentRunner, name: str) -> RunFolder:
    """The one run of that name, or where it will be looked for in vain."""
    found = sorted((theatre.folder / "runs" / name).glob("*/config.resolved.yaml"))
    return RunFolder(path=found[0].parent if found else theatre.folder / "runs" / name)


def _steps(folder: RunFolder) -> list[int]:
    return [line["step"] for line in read_lines(folder.metrics) if isinstance(line.get("step"), int)]


def _curve(folder: RunFolder) -> dict[int, tuple[Any, Any]]:
    """Loss and gradient norm of each step, the last word of a step that was done twice."""
    return {line["step"]: (line["loss"], line["grad_norm"]) for line in read_lines(folder.metrics) if "loss" in line}


def when_at_step(theatre: IncidentRunner, name: str, step: int, act: Callable[[RunFolder], None]) -> Meddle:
    """Acts once the run has done `step` steps."""

    def meddle() -> bool:
        folder = only_run(theatre, name)
        if max(_steps(folder), default=0) < step:
            return False
        act(folder)
        return True

    return meddle


def _kill_rank_1(folder: RunFolder) -> None:
    said = read_json(folder.rank_file(1))
    if said is not None:
        os.kill(said["pid"], signal.SIGKILL)


def _died_before_save(theatre: IncidentRunner) -> Replayed:
    """Rank 1 is killed a few steps before the save of step 80 is due."""
    meddle = when_at_step(theatre, "dies", 70, _kill_rank_1)
    ended = emberward(theatre, *train_words(theatre, "dies", "--restarts", "1"), meddle=meddle)
    folder = only_run(theatre, "dies")
    steps = _steps(folder)
    starts = [line for line in read_lines(folder.attempts) if line.get("event") == "start"]
    went_on_from = starts[-1].get("saved_step") if len(starts) > 1 else None
    theatre.tell(f"attempt {len(starts)} went on from the save of step {went_on_from}")
    deaths = tuple(Finding.from_json(line) for line in read_lines(folder.findings))
    broken = facts(
        (ended.code == 0, f"the run ended with code {ended.code} and was not taken up by itself"),
        (set(steps) == set(range(1, 101)), "not every step was done"),
        (went_on_from in (40, 80), f"it went on from step {went_on_from}, not from the last save"),
    )
    return Replayed(findings=deaths, broken_facts=broken)


def _saved_in_time(theatre: IncidentRunner) -> Replayed:
    ended = emberward(theatre, *train_words(theatre, "lives"))
    lives, dies = (_curve(only_run(theatre, name)) for name in ("lives", "dies"))
    is_same = not dies or lives == dies
    return Replayed(
        findings=ended.findings,
        broken_facts=facts(
            (ended.code == 0, f"the run ended with code {ended.code}"),
            (is_same, "its losses are not bitwise those of the run that lost a rank"),
        ),
    )


GPU_DIED = Incident(
    name="bloom-gpu-died-before-save",
    what="a GPU dies shortly before a save: how much work is lost",
    source="chronicles of the BLOOM-176B training",
    story=(
        "A GPU dies shortly before a save: BLOOM lost up to seven hours of 384 GPUs at a time. "
        "Here rank 1 is killed shortly before the save of step 80. "
        "The run goes on by itself from the save of step 40, loses at most one interval, and its losses are bitwise "
        "those of a run that nothing happened to."
    ),
    seconds=60,
    expected=Expected(codes=("L102",), causes=(Cause.KILLED,), culprit_ranks=(1,)),
    replay=_died_before_save,
    twin=_saved_in_time,
)
"""In the twin nobody dies; shown after the incident, the two curves are compared."""


def _switched_off(theatre: IncidentRunner) -> Replayed:
    """The kill switch is set at step 3: saved, exit 0; a start is refused, until it is removed."""
    words = train_words(theatre, "switched")
    switch = theatre.folder / "runs" / "switched" / "kill-switch"
    first = emberward(theatre, *words, meddle=when_at_step(theatre, "switched", 3, lambda _: switch.touch()))
    done = max(_steps(only_run(theatre, "switched")), default=0)
    refused = emberward(theatre, *words)
    theatre.tell(f"stopped after step {done}; the next start: exit code {refused.code}")
    switch.unlink(missing_ok=True)
    last = emberward(theatre, *words)
    steps = _steps(only_run(theatre, "switched"))
    broken = facts(
        (first.code == 0, f"the switched-off run ended with code {first.code}, not 0"),
        (3 <= done < 100, f"it stopped after step {done}"),
        (refused.code == 2, f"a start was not refused: exit code {refused.code}"),
        (last.code == 0 and steps == list(range(1, 101)), "it did not go on to its end once the switch was removed"),
    )
    return Replayed(findings=refused.findings, broken_facts=broken)


def _not_switched_off(theatre: IncidentRunner) -> Replayed:
    ended = emberward(theatre, *train_words(theatre, "on"))
    return Replayed(
        findings=ended.findings, broken_facts=facts((ended.code == 0, f"the run ended with code {ended.code}"))
    )


KILL_SWITCH = Incident(
    name="bloom-kill-switch",
    what="a chain of jobs must be stopped safely",
    source="chronicles of the BLOOM-176B training",
    story=(
        "A chain of jobs starts the training again and again; the one who is on call needs a way to stop it safely. "
        "A file is made: all ranks agree that they saw it, save, and exit 0. "
        "Each further start is refused until the file is removed."
    ),
    seconds=70,
    expected=Expected(codes=("C108",), causes=(Cause.NONE, Cause.UNKNOWN)),
    replay=_switched_off,
    twin=_not_switched_off,
)
"""In the twin the switch is never set."""

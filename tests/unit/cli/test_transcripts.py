"""What a person reads, whole: the main verbs at 80 and 40 columns and in a pipe, as golden files.

``PYTHONPATH=tests python tests/unit/cli/test_transcripts.py`` writes them anew; read the difference before you commit
it.
"""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import typer
from unit.cli.test_train_end import DRIFT
from unit.sources.examiner import warm_examiner

from emberward.cli import _check, _train, app_of
from emberward.cli._call import MIN_HELP_WIDTH, UNBROKEN, narrow_help
from emberward.cli._check import CheckOptions, check_verb
from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine
from emberward.cli._explain import ExplainOptions, explain_verb
from emberward.cli._incident import list_incidents
from emberward.cli._named_run import require_run
from emberward.cli._prove import Proof, prove_recipe
from emberward.cli._report import report_run, watch_run
from emberward.cli._runs import list_runs
from emberward.cli._train import TrainOptions, train
from emberward.events import Collective, CollectiveOp, Event, Group, Observer, Trace, write_trace
from emberward.findings import EmberwardError
from emberward.plan import HOST
from emberward.recipe import load_recipe, resolve, write_resolved
from emberward.report import Progress, RunFolder, append_line, write_json
from emberward.runs import Intent
from emberward.supervise import AttemptOutcome, LaunchResult

GOLDEN = Path(__file__).parent / "transcripts"
DUMPS = Path(__file__).resolve().parents[2] / "data" / "hangs"
WIDTHS = {"80": 80, "40": 40, "piped": None}
START_UNIX = 1_767_225_600.0


SCRIPT = """import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
{check}
dist.destroy_process_group()
"""
SCRIPTS = {
    "ends.py": SCRIPT.format(steps=3, check="dist.barrier()"),
    "stops.py": SCRIPT.format(steps=3, check="if rank == 0:\n    dist.barrier()"),
    "uneven.py": SCRIPT.format(steps="3 + rank", check="dist.barrier()"),
}


class Heard(Screen):
    """A screen of a given width that keeps what was said, both streams in order."""

    def __init__(self, width: int | None) -> None:
        super().__init__(is_json=False, width=width)
        self.lines: list[str] = []

    def _keep(self, text: str) -> None:
        from emberward.report import fit

        self.lines.append(fit(text, self.width))

    def say(self, text: str) -> None:
        self._keep(text)

    def complain(self, text: str) -> None:
        self._keep(text)

    def document(self, findings, **values) -> None:
        return


def normalised(text: str, place: Path) -> str:
    """The text without what differs from day to day and from machine to machine."""
    text = text.replace(str(place), "PLACE")
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN-ID", text)
    text = re.sub(r"\d+ (?:s|min|h|d)(?: \d+ (?:s|min|h))? (ago|old)", r"TIME \1", text)
    text = re.sub(r"stood still for \d+ s", "stood still for N s", text)
    text = re.sub(r"; \d+\.\d s\)", "; N s)", text)
    # Only where the machine allows a script no namespaces of its own.
    text = re.sub(r"^  programs that may write were refused.*\n(?:    .*\n)*", "", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


# -- a run, made by hand ---------------------------------------------------------------------------------------------


def fill(folder: RunFolder, *, num_ranks: int = 2) -> None:
    """What the ranks of a run of four steps leave."""
    folder.ranks.mkdir(parents=True, exist_ok=True)
    ranks = [
        {"rank": rank, "pid": 2**22 + rank, "host": "n1", "coordinates": {"pp": 0, "dp": rank, "tp": 0}}
        for rank in range(num_ranks)
    ]
    for rank in ranks:
        write_json(folder.rank_file(rank["rank"]), {**rank, "held_bytes": 5_056_512})
    for step in range(1, 5):
        loss = 6.0 - step / 2
        metrics = {"step": step, "loss": loss, "grad_norm": 1.5, "tokens_per_s": 4096.0, "step_s": 0.5}
        append_line(folder.metrics, metrics)
    write_json(folder.progress, {"phase": "done", "step": 4, "steps": 4, "time_unix": START_UNIX + 60})
    write_json(
        folder.summary,
        {
            "outcome": "done", "step": 4, "steps": 4, "evals": {"my": {"loss": 4.125, "tokens": 2048}},
            "checkpoint": str(folder.checkpoints / "step-00000004"), "sample_prompt": "The first line\nand the",
            "sample_source": "from my, held out of training", "sample": " second\x1b[2J one", "ranks": ranks,
        },
    )  # fmt: skip


def past_run(place: Path) -> RunFolder:
    """A run that ended well, after a rank died in its first attempt."""
    folder = RunFolder(path=place / "runs" / "bloom_tiny" / "20260101-000000-00ff")
    folder.path.mkdir(parents=True)
    write_resolved(resolve(load_recipe("bloom_tiny", []), num_ranks=8, tokenizer_size=257), folder.config)
    died = "rank 1 died first: killed by SIGKILL"
    for attempt, outcome, why in ((1, "failed", died), (2, "done", "done")):
        append_line(folder.attempts, {"event": "start", "attempt": attempt, "start": "2026-01-01T00:00:00+00:00"})
        lost = 0.01 if outcome == "failed" else 0.0
        append_line(
            folder.attempts,
            {
                "event": "end", "attempt": attempt, "outcome": outcome, "why": why, "hours": 0.05, "hours_lost": lost,
                "cause": "killed" if lost else None,
            },
        )  # fmt: skip
    append_line(folder.findings, {**DRIFT.to_json(), "attempt": 2})
    fill(folder)
    return folder


# -- the transcripts -------------------------------------------------------------------------------------------------


def launched(plan, *, on_progress, on_finding) -> LaunchResult:
    """Stands for the ranks: their phases, their steps, their end, as their files tell them."""
    folder = plan.folder
    for detail in ("importing torch", "building the model", "running the first step"):
        on_progress(Progress(phase="setup", detail=detail), [])
    fill(folder, num_ranks=plan.num_ranks)
    for step in range(1, 5):
        metrics = {"step": step, "loss": 6.0 - step / 2, "grad_norm": 1.5, "tokens_per_s": 4096.0, "step_s": 0.5}
        on_progress(Progress(phase="train", step=step, steps=4, eta_s=(4 - step) * 0.5), [metrics])
    append_line(folder.evals, {"step": 4, "sets": {"my": {"loss": 4.125, "tokens": 2048}}, "seconds": 1.0})
    on_progress(Progress(phase="done", step=4, steps=4), [])
    append_line(folder.attempts, {"event": "start", "attempt": 1, "start": "2026-01-01T00:00:00+00:00"})
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "done", "hours": 0.05, "hours_lost": 0.0})
    return LaunchResult(outcome=AttemptOutcome.DONE, exit_code=0, attempt=1, seconds=180.0)


def train_options(*overrides: str, **changed) -> TrainOptions:
    given = {
        "recipe": "bloom_tiny", "num_ranks": 2, "runs": Path("runs"), "intent": Intent.FRESH, "run_id": None,
        "is_dry": False, "is_checked": False, "grace_s": 1.0, "max_restarts": 0, "environment": {},
        "overrides": ("data.train=my.txt", "steps=4", "device=cpu", *overrides),
    }  # fmt: skip
    return TrainOptions(**{**given, **changed})


def a_train(screen: Heard) -> None:
    Path("my.txt").write_text("\n".join(f"line {number} of my own text" for number in range(4000)), encoding="utf-8")
    kept, _train.launch = _train.launch, launched
    try:
        train(train_options(), screen)
    finally:
        _train.launch = kept


def a_dry_train(screen: Heard) -> None:
    Path("my.txt").write_text("\n".join(f"line {number} of my own text" for number in range(4000)), encoding="utf-8")
    train(train_options(num_ranks=8, is_dry=True), screen)


def a_trace(screen: Heard) -> None:
    world = Group(ranks=(0, 1), index=0, label="world")
    events = {}
    for rank, ops in enumerate(((CollectiveOp.ALL_REDUCE, CollectiveOp.ALL_REDUCE), (CollectiveOp.ALL_REDUCE,))):
        bodies = [Collective(op=op, group=world, dtype="float32", numel=4, reduce_op=None) for op in ops]
        events[rank] = tuple(
            Event(rank=rank, lane=HOST, position=position, body=body) for position, body in enumerate(bodies)
        )
    write_trace(Trace(world_size=2, events=events, observer=Observer.LIVE), Path("trace.jsonl"))
    check_verb(CheckOptions(words=("trace.jsonl",), num_ranks=None, all_ranks=False, environment={}), screen)


@cache
def proof_of(words: tuple[str, ...]) -> Proof:
    """A recipe's proof, whose roles are run dry once for all widths."""
    resolved = resolve(load_recipe(words[0], words[1:]), num_ranks=2, tokenizer_size=257)
    return prove_recipe(resolved, environment=dict(os.environ))


def a_recipe(screen: Heard) -> None:
    words = ("bloom_tiny", "device=cpu", "layout.dp=1", "layout.tp=1", "layout.pp=2", "data.train=stdlib")
    kept, _check.prove_recipe = _check.prove_recipe, lambda resolved, **_: proof_of(words)
    try:
        check_verb(CheckOptions(words=words, num_ranks=2, all_ranks=False, environment={}), screen)
    finally:
        _check.prove_recipe = kept


@cache
def examined() -> Path:
    """The answers of each script's examination, in a folder of its name: they are examined once for all widths."""
    kept = Path(mkdtemp(dir="/tmp"))
    atexit.register(shutil.rmtree, kept)
    for script in SCRIPTS:

        def start(folder, job, environment, script=script):
            said = warm_examiner().start(folder, job, environment)
            shutil.copytree(folder.path, kept / script)
            return said

        examine_script(script, Heard(None), start)
    return kept


def examine_script(name: str, screen: Heard, start: Callable[..., str]) -> None:
    Path(name).write_text(SCRIPTS[name], encoding="utf-8")
    options = ExamineOptions(words=(name,), num_ranks=2, max_steps=None, time_limit_s=100.0, environment={})
    examine(options, screen, start=start)


def scripts(screen: Heard) -> None:
    """A script that ends, one with a call of one rank alone, and one whose ranks have unequal data."""

    def copied(folder, job, environment) -> str:
        shutil.copytree(examined() / job.script, folder.path, dirs_exist_ok=True)
        return ""

    for name in SCRIPTS:
        examine_script(name, screen, copied)


def an_explain(screen: Heard) -> None:
    shutil.copytree(DUMPS / "skips_one", "dumps")
    explain_verb(ExplainOptions(paths=("dumps",), sources=(DUMPS,)), screen)


def errors(screen: Heard) -> None:
    """What is refused before anything starts, one after the other."""
    wrong: list[Callable[[], object]] = [
        lambda: train(train_options("modle.hidden=3"), screen),
        lambda: train(train_options("batch.global_batch=7"), screen),
        lambda: train(train_options(recipe="blom_tiny"), screen),
        lambda: require_run(Path("nowhere"), Path("runs"), verb="report"),
        lambda: explain_verb(ExplainOptions(paths=("nothing",)), screen),
        lambda: check_verb(CheckOptions(words=(), num_ranks=None, all_ranks=False, environment={}), screen),
    ]
    for each in wrong:
        try:
            each()
        except EmberwardError as error:
            screen.complain(error.text())
        else:
            raise AssertionError("nothing was refused")


def on_a_past_run(verb: Callable[[RunFolder, Heard], object]) -> Callable[[Heard], None]:
    def show(screen: Heard) -> None:
        verb(past_run(Path.cwd()), screen)

    return show


SCENES: dict[str, Callable[[Heard], object]] = {
    "train": a_train,
    "train-dry": a_dry_train,
    "check-trace": a_trace,
    "check-recipe": a_recipe,
    "check-script": scripts,
    "report": on_a_past_run(lambda folder, screen: report_run(folder, screen)),
    "watch": on_a_past_run(lambda folder, screen: watch_run(folder, screen)),
    "runs": on_a_past_run(lambda folder, screen: list_runs(folder.path.parents[1], screen, limit=None)),
    "incident-ls": list_incidents,
    "explain": an_explain,
    "errors": errors,
}
PROOFS = [f"check-recipe-{width}" for width in WIDTHS]
"""Of these a real dry run is behind the words."""
CASES = [case for name in SCENES for width in WIDTHS if (case := f"{name}-{width}") not in PROOFS]


def transcript(case: str) -> str:
    name, _, width = case.rpartition("-")
    screen = Heard(WIDTHS[width])
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, chdir(folder):
        SCENES[name](screen)
        return normalised("\n".join(screen.lines), Path(os.path.realpath(folder)))


def compare(case: str) -> None:
    golden = GOLDEN / f"{case}.txt"
    assert golden.exists(), f"no golden file for {case}: python {Path(__file__).name} writes it"
    assert transcript(case) == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_the_transcript_is_the_one_that_was_reviewed(case):
    compare(case)


@pytest.mark.parametrize("case", PROOFS)
def test_the_transcript_of_a_proof_is_the_one_that_was_reviewed(case):
    compare(case)


@pytest.mark.parametrize("name", SCENES)
def test_no_line_is_wider_than_the_screen_unless_it_is_one_word_and_no_word_is_lost(name):
    whole = (GOLDEN / f"{name}-piped.txt").read_text(encoding="utf-8").split()
    for width in (80, 40):
        text = (GOLDEN / f"{name}-{width}.txt").read_text(encoding="utf-8")
        wide = [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]
        assert wide == []
        lost = set(whole) - set(text.replace(":", "").split()) - set(text.split())
        assert lost <= {"run"}, "the heading of a column that became the first line of its block"


def test_there_is_no_golden_file_that_nobody_compares():
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(
        [*CASES, *PROOFS, *(f"help-{w}" for w in (80, 40))]
    )


def test_readme_shows_the_beginning_of_the_incidents():
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
    listed = (GOLDEN / "incident-ls-80.txt").read_text(encoding="utf-8").splitlines()
    assert "\n".join(listed[:13]) in readme


# -- help ------------------------------------------------------------------------------------------------------------


def helps(width: int) -> str:
    """The help of every verb, one after the other."""
    command = typer.main.get_command(app_of(None))
    if width < MIN_HELP_WIDTH:
        return narrow_help("\n".join(_helps(command, "emberward", None, UNBROKEN)) + "\n", width)
    return "\n".join(_helps(command, "emberward", None, width)) + "\n"


def _helps(command, name: str, parent, width: int):
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=width)
    yield "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    for each in sorted(getattr(command, "commands", {})):
        yield ""
        yield from _helps(command.commands[each], each, context, width)


def verbs(command, name: str):
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for each, sub in inner.items():
        yield from verbs(sub, f"{name} {each}")


@pytest.mark.parametrize("width", [80, 40])
def test_the_help_is_the_one_that_was_reviewed(width):
    golden = GOLDEN / f"help-{width}.txt"
    assert golden.exists(), f"no golden file: python {Path(__file__).name} writes it"
    assert helps(width) == golden.read_text(encoding="utf-8")


def test_a_narrow_help_fits_and_cuts_no_word():
    wide, narrow = ((GOLDEN / f"help-{width}.txt").read_text(encoding="utf-8") for width in (80, 40))
    # Click shortens a list of verbs with dots.
    lost = {word for word in set(wide.split()) - set(narrow.split()) if not word.endswith("...")}
    assert lost == set()
    assert [line for line in narrow.splitlines() if len(line) > 40] == []


@pytest.mark.parametrize(("name", "command"), list(verbs(typer.main.get_command(app_of(None)), "emberward")))
def test_every_verb_shows_its_arguments_and_two_examples(name, command):
    context = command.make_context(name, [], resilient_parsing=True)
    text = command.get_help(context)
    assert text.count(f"\n    {name}") >= 2, text
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    assert ("Arguments:" in text) == bool(arguments)
    assert all(getattr(each, "help", None) for each in arguments)


def bless() -> None:
    """Writes every golden file."""
    for case in (*CASES, *PROOFS):
        (GOLDEN / f"{case}.txt").write_text(transcript(case), encoding="utf-8")
    for width in (80, 40):
        (GOLDEN / f"help-{width}.txt").write_text(helps(width), encoding="utf-8")


if __name__ == "__main__":
    bless()

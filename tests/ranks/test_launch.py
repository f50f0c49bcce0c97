"""The whole program on real runs of two ranks: trained, killed, resumed, stopped, looked at, handed on.

Runs are costly, so that a few serve all tests: one that nobody interrupts, one that is killed, one that is stopped.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import psutil
import pytest
from unit.cli.door import emberward, without_torch

from emberward.checkpoint import latest
from emberward.report import printable
from ranks.runs import SMALL, write_text

STEPS, SAVE_EVERY = 40, 10
OPTIONS = (
    *SMALL,
    f"steps={STEPS}",
    f"save.interval={SAVE_EVERY}",
    "evaluation.interval=20",
    "layout.dp=1",
    "layout.tp=1",
    "layout.pp=2",
    "data.train=text",
    "data.held_out=0.2",
)
SECONDS_TO_NOTICE = 20.0
"""Bound for a death to end an attempt. Seconds on a free machine; tests share their cores."""


def command(name: str, *more: str) -> list[str]:
    return ["train", "bloom_tiny", *OPTIONS, f"name={name}", "--no-check", *more]


class Started:
    """The program, running. Its own session, as under a terminal that sends Ctrl-C to it alone."""

    def __init__(self, place, *arguments: str, **environment: str) -> None:
        # A pipe that nobody reads gets full.
        self.said = [tempfile.TemporaryFile("w+") for _ in ("stdout", "stderr")]  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "emberward", *arguments],
            cwd=place,
            stdout=self.said[0],
            stderr=self.said[1],
            env={**os.environ, **environment},
            start_new_session=True,
        )

    def end(self) -> tuple[int, str, str]:
        code = self.process.wait(120)
        texts = []
        for file in self.said:
            with file:
                file.seek(0)
                texts.append(file.read())
        return code, texts[0], texts[1]


def folder_of(place, name: str):
    """The one run of that name."""
    (found,) = (place / "runs" / name).iterdir()
    return found


def steps_in(path) -> list[dict]:
    file = path / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def curve(path) -> list[tuple]:
    return [(each["step"], each["loss"], each["grad_norm"], each["consumed_samples"]) for each in steps_in(path)]


def using(path) -> list[list[str]]:
    """Command lines of living processes that name the run's folder."""
    lines = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(path) in word for word in words):
            lines.append(words)
    return lines


def flip_a_byte(save) -> None:
    """Damages the biggest file of a save."""
    biggest = max(save.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    data = bytearray(biggest.read_bytes())
    data[len(data) // 2] ^= 1
    biggest.write_bytes(data)


def wait_for_step(started: Started, place, name: str, step: int, wait_until) -> None:
    root = place / "runs" / name

    def is_there() -> bool:
        return started.process.poll() is not None or any(len(steps_in(path)) >= step for path in root.glob("*"))

    wait_until(is_there, f"step {step} of {name}")
    assert started.process.poll() is None, started.end()


def wait_for_save(place, name: str, step: int, wait_until) -> None:
    """Saves are written beside the training, which may be some steps on when one is whole."""
    checkpoints = folder_of(place, name) / "checkpoints"

    def is_whole() -> bool:
        save = latest(checkpoints)
        return save is not None and int(save.name.removeprefix("step-")) >= step

    wait_until(is_whole, f"the save of step {step} of {name}")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where the person stands: a folder with their text."""
    path = tmp_path_factory.mktemp("place")
    write_text(path / "text")
    return path


def test_one_rank_can_be_checked(place):
    """Without dp and tp no parameter is a DTensor, which the dry run's fake tensors once could not give memory to."""
    options = [*SMALL, "data.train=text", "data.held_out=0.2", "--ranks", "1", "--json"]
    said = emberward("check", "bloom_tiny", *options, cwd=place)
    assert (said.code, said.document["findings"]) == (0, []), said.err
    assert "1 rank instead of the recipe's 8: layout.dp=1 layout.tp=1 layout.pp=1" in said.err
    assert "proved: every call of every rank ends (1 rank, 1 run dry" in said.err


@pytest.fixture(scope="module")
def straight(place):
    """What the program said about a run that nobody interrupted."""
    said = emberward(*command("straight", "--json"), cwd=place)
    assert said.code == 0, said.err
    return said


def test_a_run_ends_with_a_summary(straight, place):
    path = folder_of(place, "straight")
    document = straight.document
    assert (document["outcome"], document["step"], document["exit_code"]) == ("done", STEPS, 0)
    assert document["run"] == str(path)
    assert document["loss_last"] < document["loss_first"] - 1
    assert [rank["coordinates"] for rank in document["ranks"]] == [
        {"pp": 0, "dp": 0, "tp": 0},
        {"pp": 1, "dp": 0, "tp": 0},
    ]
    lines = straight.err.splitlines()
    assert sum(line.startswith("step ") and "  loss " in line for line in lines) >= 4
    assert all(len(line) <= 80 for line in lines if line.startswith("step "))
    starts = [line for line in lines if line.startswith("starting: ")]
    assert starts[-1] == "starting: running the first step"
    assert len(starts) == len(set(starts)) >= 3
    first_step = next(number for number, line in enumerate(lines) if line.startswith("step "))
    assert first_step <= 24, "one screen before step 1"
    assert any(line.startswith("  memory ") and line.endswith(" planned") for line in lines)
    assert sum(line.startswith("evaluation at step ") for line in lines) == 2
    assert "  rank  pp  dp  tp  host" in lines
    assert "  sample      what the model writes after it" in lines
    assert "  prompt      from text, held out of training" in lines
    assert f"  folder      {path}" in lines
    assert f" report {path.relative_to(place)}" in straight.err
    assert f" generate {path.relative_to(place)} " in straight.err
    assert using(path) == []


def test_a_second_start_after_the_end_begins_a_new_run_and_says_so(straight, place):
    said = emberward(*command("straight", "--dry"), cwd=place)
    assert said.code == 0
    assert f"straight/{folder_of(place, 'straight').name} is done already" in said.out
    assert "a start now: new run straight/" in said.out


def test_a_killed_rank_ends_the_attempt_and_the_same_command_goes_on_bitwise(straight, place, wait_until):
    started = Started(place, *command("killed"), PYTHONPROFILEIMPORTTIME="1")
    wait_for_step(started, place, "killed", SAVE_EVERY + 5, wait_until)
    wait_for_save(place, "killed", SAVE_EVERY, wait_until)
    path = folder_of(place, "killed")
    pid = json.loads((path / "ranks" / "rank00001.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    began_s = time.monotonic()
    code, out, _ = started.end()
    assert time.monotonic() - began_s < SECONDS_TO_NOTICE
    assert code == 1
    assert using(path) == []
    check_what_was_imported((path / "logs" / "rank00001.log").read_text())
    box = out[out.index("╭─") :].splitlines()
    assert box[0] == "╭─ L102 rank 1 died first: killed by SIGKILL"
    assert box[1].endswith(f"   pid {pid}   pp1 dp0 tp0   exit code -9")
    assert "go on from the last save:" in out
    done = len(steps_in(path))
    assert SAVE_EVERY + 5 <= done < STEPS
    explained = emberward("explain", str(path), "--json", cwd=place)
    told = map(json.loads, (path / "findings.jsonl").read_text().splitlines())
    errors = [
        [(each["code"], each["culprit_ranks"]) for each in found if each["severity"] == "error"]
        for found in (told, explained.document["findings"])
    ]
    assert errors == [[("L102", [1])]] * 2, "explain says no other thing than train said"

    said = emberward(*command("killed", "optim.lr=1e-3", "--dry", "--json"), cwd=place)
    assert (said.code, said.document["findings"][0]["code"]) == (2, "C107")
    assert "is not finished and has another recipe" in said.err

    again = Started(place, *command("killed"))
    # Before its launcher has begun the new attempt, the run is one that failed, and a watch of it ends at once.
    wait_until(lambda: '"attempt": 2' in (path / "attempts.jsonl").read_text(), "the second attempt's start")
    seen = emberward("watch", str(path), cwd=place)
    code, out, err = again.end()
    assert code == 0, err
    assert f"run         resumes killed/{path.name}" in out.splitlines()
    assert seen.code == 0, "a death that a later attempt got over is history"
    assert "  recovered   L102 in attempt 1, rank 1 died first: killed by SIGKILL" in seen.out.splitlines()
    assert f"killed {path.name}: done at step {STEPS} of {STEPS}" in seen.out.splitlines()
    assert curve(path) == curve(folder_of(place, "straight"))
    diary = [json.loads(line) for line in (path / "attempts.jsonl").read_text().splitlines()]
    assert [(each["event"], each.get("outcome")) for each in diary] == [
        ("start", None),
        ("end", "failed"),
        ("start", None),
        ("end", "done"),
    ]
    assert diary[1]["saved_step"] == diary[2]["saved_step"]
    assert SAVE_EVERY <= diary[1]["saved_step"] <= done // SAVE_EVERY * SAVE_EVERY
    assert 0 < diary[1]["hours_lost"] < diary[1]["hours"]


def check_what_was_imported(log: str) -> None:
    """A rank pays for no part of torch that cuts parameters, nor for the compiler."""
    lines = [line for line in log.splitlines() if line.startswith("import time:")]
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert {"torch", "emberward.engine"} <= modules
    assert not {"torch.distributed.fsdp", "torch.distributed.tensor", "torch._dynamo", "sympy"} & modules


def test_a_stopped_rank_is_named_ended_and_resumed_by_itself_bitwise(straight, place, wait_until):
    """Its last save is damaged too: nobody is there to be asked, so that the run goes on from the one before."""
    started = Started(place, *command("stuck", "--restarts", "1", "--act-after", "1"))
    wait_for_step(started, place, "stuck", 2 * SAVE_EVERY + 5, wait_until)
    wait_for_save(place, "stuck", 2 * SAVE_EVERY, wait_until)
    path = folder_of(place, "stuck")
    os.kill(json.loads((path / "ranks" / "rank00001.json").read_text())["pid"], signal.SIGSTOP)
    flip_a_byte(path / "checkpoints" / f"step-{2 * SAVE_EVERY:08d}")
    code, out, err = started.end()
    assert (code, using(path)) == (0, []), out + err
    assert curve(path) == curve(folder_of(place, "straight"))
    ends = [each for each in map(json.loads, (path / "attempts.jsonl").read_text().splitlines()) if "outcome" in each]
    assert [(each["outcome"], each["cause"]) for each in ends] == [("failed", "stopped"), ("done", None)]
    found = [json.loads(line) for line in (path / "findings.jsonl").read_text().splitlines()]
    errors = [each for each in found if each["severity"] == "error"]
    assert [(each["cause"], each["culprit_ranks"], each["attempt"]) for each in errors] == [("stopped", [1], 1)]
    (damage,) = [each for each in found if each["code"] == "K101"]
    assert damage["severity"] == "warning"
    assert damage["message"].startswith("step-00000020 is damaged")
    assert damage["message"].endswith("; the run goes on from step-00000010")
    assert len(list((path / "events" / "attempt-0001").glob("rank*.ring"))) == 2
    assert "restart 1 of 1 from the save of step 20" in out.splitlines()


def test_interrupted_and_terminated_runs_save_and_leave_nothing_behind(place, wait_until):
    endless = ("steps=100000", "save.interval=50000")
    started = Started(place, *command("stopped", *endless))
    wait_for_step(started, place, "stopped", 5, wait_until)
    path = folder_of(place, "stopped")
    assert len(using(path)) >= 3
    before = (path / "config.resolved.yaml").read_bytes()
    second = emberward(*command("stopped", *endless, "save.keep=9", "--json"), cwd=place)
    assert (second.code, second.document["findings"][0]["code"]) == (2, "C111")
    assert (path / "config.resolved.yaml").read_bytes() == before, "a start that is refused changes nothing"
    started.process.send_signal(signal.SIGINT)
    code, out, _ = started.end()
    assert code == 130
    assert using(path) == []
    stopped_at = len(steps_in(path))
    assert [each.name for each in (path / "checkpoints").glob("step-*")] == [f"step-{stopped_at:08d}"]
    assert f"stopped {path.name}: stopped at step {stopped_at} of 100000" in out.splitlines()

    again = Started(place, *command("stopped", *endless))
    wait_for_step(again, place, "stopped", stopped_at + 3, wait_until)
    again.process.send_signal(signal.SIGTERM)
    code, out, _ = again.end()
    assert code == 75
    assert using(path) == []
    assert [each["step"] for each in steps_in(path)] == list(range(1, len(steps_in(path)) + 1))
    assert f"run         resumes stopped/{path.name}" in out.splitlines()
    assert list((path / "events").glob("attempt-0002/rank0000*.ring")), "the rings are kept"
    first_shown = next(line for line in out.splitlines() if line.startswith("step "))
    assert int(first_shown.split("/")[0].split()[1]) > stopped_at
    check_the_kill_switch(place, path, command("stopped", *endless), wait_until)


def check_the_kill_switch(place, path, words, wait_until):
    """The file ends all ranks with a save and exit code 0; while it is there nothing starts."""
    switch = path.parent / "kill-switch"
    before = len(steps_in(path))
    third = Started(place, *words)
    wait_until(lambda: len(steps_in(path)) > before + 3, "three more steps")
    switch.touch()
    wait_until(lambda: third.process.poll() is not None, "the end")
    code, out, _ = third.end()
    assert (code, using(path)) == (0, []), out
    assert json.loads((path / "summary.json").read_text())["is_switched_off"] is True
    assert (path / "checkpoints" / f"step-{len(steps_in(path)):08d}").is_dir()
    diary = [json.loads(line) for line in (path / "attempts.jsonl").read_text().splitlines()]
    assert (diary[-1]["outcome"], diary[-1]["why"]) == ("stopped", "stopped by the kill switch")
    refused = emberward(*words, "--json", cwd=place)
    assert (refused.code, refused.document["findings"][0]["code"]) == (2, "C108")
    assert len((path / "attempts.jsonl").read_text().splitlines()) == len(diary)
    switch.unlink()
    assert emberward(*words, "--dry", cwd=place).code == 0


def test_the_last_save_of_a_pipeline_writes_text_on_one_process(straight, place):
    def said(*options: str) -> str:
        words = ("generate", "straight", "line 1", "--tokens", "12", *options, "--json")
        answer = emberward(*words, cwd=place, has_torch=True)
        assert answer.code == 0, answer.err
        assert answer.document["prompt"] == "line 1"
        assert answer.err.startswith(printable("line 1" + answer.document["text"]))
        return answer.document["text"]

    greedy = said("--greedy")
    assert greedy
    assert said("--top-k", "1", "--seed", "5") == greedy, "of one token there is no choice"
    assert said("--seed", "3") == said("--seed", "3") != said("--seed", "4")


def test_no_temperature_below_nothing(place):
    answer = emberward("generate", "straight", "line", "--temperature", "-1", cwd=place)
    assert (answer.code, answer.err.splitlines()[0]) == (2, "C113 there is no negative temperature")


def test_saves_are_listed_shown_and_proved_without_torch(straight, place, tmp_path):
    path = str(folder_of(place, "straight"))
    environment = without_torch(tmp_path / "blocked")
    saves = emberward("checkpoint", "ls", path, "--json", cwd=place, **environment).document["saves"]
    assert [(save["step"], save["world_size"], save["is_latest"]) for save in saves][-1] == (STEPS, 2, True)
    said = emberward("checkpoint", "ls", path, cwd=place, **environment)
    assert [line.split()[0] for line in said.out.splitlines()] == ["step", *(str(save["step"]) for save in saves)]
    shown = emberward("checkpoint", "show", path, "--json", cwd=place, **environment).document
    assert shown["step"] == STEPS
    shapes = {tensor["name"]: tensor["shape"] for tensor in shown["tensors"]}
    assert shapes["model/blocks.0.attention.qkv.weight"] == [96, 32]
    proved = emberward("checkpoint", "verify", path, cwd=place, **environment)
    assert (proved.code, proved.err) == (0, "")
    assert "every byte is as it was saved" in proved.out


def test_a_changed_byte_is_found(straight, place, tmp_path):
    save = tmp_path / "checkpoints" / f"step-{STEPS:08d}"
    shutil.copytree(folder_of(place, "straight") / "checkpoints" / save.name, save)
    flip_a_byte(save)
    said = emberward("checkpoint", "verify", str(save), "--json", cwd=place, **without_torch(tmp_path / "blocked"))
    assert said.code == 1
    assert {finding["code"] for finding in said.document["findings"]} == {"K101"}
    assert "K101" in said.err


def test_an_exported_save_loads_in_transformers(straight, place, tmp_path):
    import torch
    from transformers import BloomForCausalLM

    path = str(folder_of(place, "straight"))
    said = emberward("checkpoint", "export", path, str(tmp_path / "hf"), "--json", cwd=place, has_torch=True)
    assert said.code == 0, said.err
    assert said.document["written"] == str(tmp_path / "hf")
    model = BloomForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32).eval()
    tokens = torch.tensor([list(b"line 3 of file 1 says 3 times 3")])
    with torch.no_grad():
        answer = model(tokens, labels=tokens)
    assert torch.isfinite(answer.logits).all()
    # Trained weights, not fresh ones: those would give ln(257) = 5.5.
    assert answer.loss.item() < 4.0
    again = emberward("checkpoint", "export", path, str(tmp_path / "hf"), "--json", cwd=place, has_torch=True)
    assert (again.code, again.document["findings"][0]["code"]) == (2, "K102")

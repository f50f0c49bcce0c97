"""Runs that save beside the training: taken up bitwise, on other layouts, after failed saves and on damage."""

import json
import shutil

import pytest

from emberward.checkpoint import Probe, describe, latest, read_manifest, read_probe, verify, write_probe
from ranks.runs import curve, metrics
from ranks.save_cases import findings_of, train

TP2_DP2 = {"dp": 2, "tp": 2, "zero": 3, "accumulation": 2}
BIG_DIFFERENCE, SMALL_DIFFERENCE = 1.01, 1 + 1e-12


@pytest.fixture(scope="module")
def straight(pool, tmp_path_factory):
    """Eight steps that nobody interrupts, on dp2 x tp2, and what each rank drew."""
    folder = tmp_path_factory.mktemp("straight")
    return folder, pool.run(train, 4, folder=str(folder), steps=8, seed=5, **TP2_DP2)


@pytest.fixture(scope="module")
def crash(pool, tmp_path_factory, straight):
    """The same run, ended before its last step: whole saves of steps 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("crash")
    answers = pool.run(train, 4, folder=str(folder), steps=8, seed=5, crash_at=7, **TP2_DP2)
    assert [answer["error"] for answer in answers] == [""] * 4
    assert curve(folder) == curve(straight[0])[:7]
    return folder


@pytest.fixture
def crashed(tmp_path, crash):
    """A copy of the crashed run for one test."""
    return shutil.copytree(crash, tmp_path / "crashed", symlinks=True)


def troubles_of(folder):
    """The findings of a run, but for the notices that a save waited for the one before: a slow disk makes those."""
    return [finding for finding in findings_of(folder) if finding["code"] != "K106"]


def resume_from_save(pool, folder, *, num_ranks=4, steps=8, **settings):
    return pool.run(train, num_ranks, folder=str(folder), steps=steps, seed=99, **{**TP2_DP2, **settings})


def test_straight_is_resumed_bitwise_with_the_random_state_of_every_rank(pool, crashed, straight):
    folder, before = straight
    answers = resume_from_save(pool, crashed)
    assert {answer["resumed"] for answer in answers} == {6} and {answer["error"] for answer in answers} == {None}
    assert curve(crashed) == curve(folder)
    assert [answer["draws"] for answer in answers] == [answer["draws"][6:] for answer in before]
    assert len({tuple(answer["draws"]) for answer in answers}) == 4, "each rank has a state of its own"
    assert troubles_of(crashed) == []


def test_a_save_holds_all_that_a_run_is(straight):
    path = latest(straight[0] / "checkpoints")
    assert verify(path) == ()
    manifest, names = read_manifest(path), {tensor.name for tensor in describe(path).tensors}
    parameters = {name.removeprefix("model/") for name in names if name.startswith("model/")}
    assert {f"optim/{moment}/{name}" for moment in ("exp_avg", "exp_avg_sq") for name in parameters} <= names
    assert {name for name in names if name.startswith("rng/")} == {
        f"rng/cpu/pp0.dp{dp}.tp{tp}" for dp in range(2) for tp in range(2)
    }
    meta = manifest.meta
    assert meta["engine"] == {"num_updates": 8, "loss_scale": 1.0, "loss_scale_num_good": 0}
    assert (meta["consumed_samples"], meta["consumed_tokens"], meta["data_digest"]) == (128, 128 * 16, "numbers")
    assert meta["scheduler"]["lr"] > 0 and "hidden: 32" in meta["recipe"]
    assert meta["layout"]["tp"] == 2 and set(meta["versions"]) == {"emberward", "torch", "numpy", "python"}
    lines = {line["step"]: line for line in metrics(straight[0])}
    assert lines[3]["save_blocked_s"] < 10 and lines[3]["save_staged_bytes"] > 0
    assert any("save_s" in line for line in lines.values())
    for step in (2, 4, 6):
        probe = read_probe(path.with_name(f"step-{step:08d}"))
        assert (probe.loss, probe.grad_norm) == (lines[step + 1]["loss"], lines[step + 1]["grad_norm"])
        assert (probe.first_sample, probe.num_samples) == (step * 16, 16)
    assert read_probe(path).first_sample == 128, "the last save's batch is one that was never trained"


@pytest.mark.parametrize(
    ("num_ranks", "layout"),
    [
        (4, {"dp": 1, "tp": 2, "pp": 2, "zero": 1, "accumulation": 4}),
        (1, {"dp": 1, "tp": 1, "zero": 1, "accumulation": 2}),
    ],
    ids=["tp2-pp2", "one-rank"],
)
def test_another_layout_gives_the_saved_loss_within_the_bound_and_goes_on_alike(
    pool, crashed, straight, num_ranks, layout
):
    answers = resume_from_save(pool, crashed, num_ranks=num_ranks, **layout)
    assert {answer["resumed"] for answer in answers} == {6} and {answer["error"] for answer in answers} == {None}
    for (_, loss, norm, samples), (_, old_loss, old_norm, old_samples) in zip(
        curve(crashed)[6:], curve(straight[0])[6:], strict=True
    ):
        assert samples == old_samples
        assert abs(loss - old_loss) < 1e-5 * old_loss and abs(norm - old_norm) < 1e-4 * old_norm
    assert troubles_of(crashed) == []


def test_a_state_that_gives_another_loss_is_refused_before_it_is_trained_on(pool, crashed):
    path = latest(crashed / "checkpoints")
    saved = read_probe(path)

    def plant(factor: float) -> Probe:
        planted = Probe(**{name: getattr(saved, name) for name in saved.__slots__} | {"loss": saved.loss * factor})
        write_probe(path, planted)
        return planted

    planted = plant(BIG_DIFFERENCE)
    before = curve(crashed)
    errors = {answer["error"] for answer in resume_from_save(pool, crashed)}
    assert errors == {
        "K107 the state of step 6 gives another loss than when it was saved\n"
        f"  where     {path}, samples 96 to 111\n"
        f"  expected  loss {planted.loss!r}, gradient norm {saved.grad_norm!r}, to 1e-05 and 0.0001 of them\n"
        f"  found     loss {saved.loss!r}, gradient norm {saved.grad_norm!r}; nothing that is known has changed\n"
        f"  next      rm {path}/probe.json      (if the change is meant: the next start does not compare)"
    }
    assert curve(crashed) == before[:6], "the seventh step was taken back for the resume, and not trained again"
    plant(SMALL_DIFFERENCE)
    assert {answer["error"] for answer in resume_from_save(pool, crashed)} == {None}
    (finding,) = troubles_of(crashed)
    assert (finding["code"], finding["severity"], finding["kind"]) == ("K107", "notice", "drift")


DAMAGES = ("flip data", "flip header", "flip random state", "cut", "remove", "swap", "flip manifest", "flip probe")


def hurt(path, damage):
    """Damages the save; the name of the file that must be named."""
    first, second = path / "rank-00000.safetensors", path / "rank-00001.safetensors"
    manifest = read_manifest(path)

    def flip(file, at):
        data = bytearray(file.read_bytes())
        data[at] ^= 1
        file.write_bytes(data)
        return file.name

    match damage:
        case "flip data":
            piece = manifest.tensors["model/blocks.1.mlp.up.weight"].pieces[-1]
            return flip(path / piece.file, piece.offset)
        case "flip random state":
            piece = manifest.tensors["rng/cpu/pp0.dp1.tp0"].pieces[0]
            return flip(path / piece.file, piece.offset + 100)
        case "flip header":
            return flip(second, 300)
        case "flip manifest":
            return flip(path / "manifest.json", 500)
        case "flip probe":
            return flip(path / "probe.json", 150)
        case "cut":
            second.write_bytes(second.read_bytes()[:-1])
            return second.name
        case "remove":
            first.unlink()
            return first.name
        case "swap":
            other = path.with_name("step-00000004") / second.name
            shutil.copy(other, second)
            return second.name
    raise AssertionError(damage)


def test_every_damage_is_named_before_the_first_step_and_the_older_save_is_offered(pool, crashed):
    path = latest(crashed / "checkpoints")
    for damage in DAMAGES:
        shutil.copytree(path, crashed / "kept")
        name = hurt(path, damage)
        answers = resume_from_save(pool, crashed, only_resume=True)
        (error,) = {answer["error"] for answer in answers}
        assert error.startswith("K101 ") and f"{path.name}/{name}" in error, (damage, error)
        assert error.endswith(
            f"  next      mv {path} {path.parent}/damaged-{path.name}      "
            "(then start again: it goes on from step-00000004; save.damaged=older does so by itself)"
        )
        shutil.rmtree(path)
        shutil.move(crashed / "kept", path)
    answers = resume_from_save(pool, crashed, only_resume=True)
    assert [(answer["error"], answer["resumed"]) for answer in answers] == [(None, 6)] * 4, "look-alike: all is well"


def test_what_the_message_says_is_how_to_go_on_from_the_older_save(pool, crashed, straight):
    path = latest(crashed / "checkpoints")
    hurt(path, "flip data")
    path.rename(path.with_name(f"damaged-{path.name}"))
    assert {answer["resumed"] for answer in resume_from_save(pool, crashed, only_resume=True)} == {4}
    assert [finding["severity"] for finding in troubles_of(crashed)] == ["warning"]


def test_with_leave_to_the_run_goes_on_from_the_save_before_the_damaged_ones(pool, crashed, straight):
    """Two of three are damaged; the random states and the curve are those of the third."""
    root = crashed / "checkpoints"
    hurt(root / "step-00000006", "flip data")
    hurt(root / "step-00000004", "remove")
    answers = resume_from_save(pool, crashed, damaged="older")
    assert {answer["resumed"] for answer in answers} == {2} and {answer["error"] for answer in answers} == {None}
    assert curve(crashed) == curve(straight[0])
    told = [(finding["code"], finding["severity"], finding["message"]) for finding in troubles_of(crashed)]
    assert told == [
        (
            "K101",
            "warning",
            "step-00000006 is damaged (data is not what was saved); the run goes on from step-00000002",
        ),
    ]
    assert verify(latest(root)) == ()


def test_a_save_that_fails_is_told_and_the_run_goes_on_to_the_next(pool, tmp_path):
    answers = pool.run(train, 2, folder=str(tmp_path), steps=7, storage="full 1 1", dp=2)
    assert [answer["error"] for answer in answers] == [None, None]
    (finding,) = troubles_of(tmp_path)
    assert (finding["code"], finding["severity"], finding["culprit_ranks"]) == ("K103", "warning", [1])
    assert finding["message"] == ("the save of step 2 failed, the run goes on: rank 1 could not write the checkpoint")
    saves = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert saves == ["step-00000004", "step-00000006", "step-00000007"]
    assert sum(line.get("save_failed", 0) for line in metrics(tmp_path)) == 1


def test_a_run_whose_last_save_fails_ends_with_its_error(pool, tmp_path):
    answers = pool.run(train, 2, folder=str(tmp_path), steps=3, storage="full 1 2", dp=2)
    assert answers[1]["error"].startswith("K103 rank 1 could not write the checkpoint")
    assert answers[0]["error"].startswith("K103 another rank could not write its part")
    assert latest(tmp_path / "checkpoints").name == "step-00000002"


def test_a_rank_that_could_not_save_is_told_before_the_first_step(pool, tmp_path):
    trial = tmp_path / "checkpoints" / ".trial-00001.tmp"
    trial.mkdir(parents=True)  # a folder of the file's name: this rank cannot make it, whoever it runs as
    answers = pool.run(train, 2, folder=str(tmp_path), steps=3, dp=2)
    assert {answer["error"] for answer in answers} == {
        "K103 rank 1 could not save here\n"
        f"  where     {trial}\n"
        "  expected  a folder in which every rank may make, write and remove files\n"
        "  found     Is a directory\n"
        f"  next      fix the permissions or the mount of {trial.parent}, then start again"
    }
    assert metrics(tmp_path) == []
    trial.rmdir()
    assert [answer["error"] for answer in pool.run(train, 2, folder=str(tmp_path), steps=3, dp=2)] == [None, None]
    assert not list((tmp_path / "checkpoints").glob(".trial*"))


def test_a_spoilt_parameter_ends_the_run_before_a_save_holds_it_and_the_next_start_goes_on_bitwise(pool, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "spoilt"
    pool.run(train, 2, folder=str(whole), steps=4, tp=2)
    answers = pool.run(train, 2, folder=str(folder), steps=4, spoil_at=3, tp=2)
    for answer in answers:
        assert answer["error"].startswith("R105 parameter ")
        assert " was not finite before step 4, on rank" in answer["error"]
    saves = folder / "checkpoints"
    assert [path.name for path in sorted(saves.glob("step-*"))] == ["step-00000002"]
    told = [(each["code"], each["severity"]) for each in troubles_of(folder)]
    assert told == [("R101", "warning"), ("R105", "error")]
    assert [answer["error"] for answer in pool.run(train, 2, folder=str(folder), steps=4, tp=2)] == [None, None]
    assert curve(folder) == curve(whole)


def test_a_save_that_waits_for_the_one_before_says_so_once(pool, tmp_path):
    pool.run(train, 2, folder=str(tmp_path), steps=6, interval=1, storage="slow", dp=2)
    (finding,) = findings_of(tmp_path)
    assert (finding["code"], finding["severity"]) == ("K106", "notice")
    assert "saves are asked for faster than they are written" in finding["message"]
    assert finding["next"] == "save.interval=2, or a faster file system for the saves"
    assert max(line.get("save_wait_s", 0.0) for line in metrics(tmp_path)) > 0.05
    assert len(list((tmp_path / "checkpoints").glob("step-*"))) == 6, "every one is whole"
    manifests = [json.loads(path.read_text())["step"] for path in (tmp_path / "checkpoints").glob("*/manifest.json")]
    assert sorted(manifests) == [1, 2, 3, 4, 5, 6]

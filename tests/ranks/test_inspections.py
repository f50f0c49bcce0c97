"""A parameter of a running job, asked for from outside: what the ranks answer, and that it changes nothing."""

import json
import os
import signal

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from emberward.checkpoint import assemble_tensor, inspect_tensor
from emberward.cli import app_of
from emberward.engine import Engine, Quantity, build_world
from emberward.rank._inspections import Inspections
from emberward.recipe import mesh_of
from emberward.report import RunFolder
from emberward.runs import ask, read_answers
from ranks.cases import LR, micro_batches_of, small_recipe
from ranks.runs import logs, make_run, metrics, start, write_text

SPLIT, TIED = "blocks.1.mlp.up.weight", "embed.weight"
ROBERTA = "roberta.encoder.layer.1.intermediate.dense.weight"


def answered(rank, world_size, *, path, name, **layout):
    """(totals of three steps with questions, without; what every rank reads of `name` after the second)."""
    recipe = small_recipe(**layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    totals, read = {}, {}
    for is_asked in (False, True):
        engine = Engine(recipe, world)
        inspections = Inspections(RunFolder(path=path), rank=rank, local_world_size=world_size)
        if is_asked:
            inspections.watch()
        totals[is_asked] = []
        for step in range(1, 4):
            before_update = inspections.begin_step(engine, step=step + 1)
            assert (before_update is not None) == (is_asked and step == 2)
            batches = micro_batches_of(step, recipe, world.dp_rank)
            totals[is_asked].append(engine.train_step(batches, lr=LR, step=step, before_update=before_update))
            inspections.end_step(engine)
            if step == 2:
                for what in (Quantity.VALUE, Quantity.EXP_AVG, Quantity.EXP_AVG_SQ):
                    read[what.value] = engine.read(name, what).numpy().copy()
        inspections.close()
    return totals, read


@pytest.mark.parametrize(
    ("name", "layout"),
    [(SPLIT, {"dp": 2, "zero": 3}), (SPLIT, {"tp": 2, "accumulation": 2}), (ROBERTA, {"tp": 2, "family": "roberta"})],
    ids=["zero3", "tp", "roberta"],
)
def test_owners_answer_for_one_moment_and_the_numbers_stay_bitwise(pool, tmp_path, name, layout):
    folder = RunFolder(path=tmp_path)
    inspection = ask(folder, name=name, step=3, id="now")
    missed = ask(folder, name=name, step=1, id="missed")
    answers = pool.run(answered, 2, path=tmp_path, name=name, **layout)
    for totals, _ in answers:
        assert totals[True] == totals[False]
    assert (read_answers(missed).late_at, read_answers(missed).parts) == (1, ())
    found = read_answers(inspection)
    for prefix, what in {"model/": "value", "optim/exp_avg/": "exp_avg", "optim/exp_avg_sq/": "exp_avg_sq"}.items():
        parts = [(str(rank), part) for rank, part in found.parts if part.name == prefix + name]
        assert assemble_tensor(parts[:1], step=3, world_size=2) is None, "one rank's part is not the whole"
        whole = assemble_tensor(parts, step=3, world_size=2)
        np.testing.assert_array_equal(whole.values, answers[0][1][what].astype(np.float64))
    assert {rank for rank, part in found.parts if part.name == "grad/" + name} == {0, 1}


def said(*words):
    done = CliRunner().invoke(app_of("inspect"), ["inspect", *map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_a_job_that_trains_is_looked_into_and_what_it_shows_is_what_it_saves(tmp_path, wait_until):
    text = write_text(tmp_path / "data" / "text")
    layout = ("layout.dp=1", "layout.tp=1", "layout.pp=2", "optim.clip=null")
    saves = ("save.interval=1", "save.keep=null", "save.background=false", "save.verify=none")
    path = make_run(tmp_path / "run", 2, "steps=5000", "batch.accumulation=4", *layout, *saves, text=text)
    code, document = said(path, TIED, "--live")
    assert (code, document["findings"][0]["code"]) == (2, "C118"), "a run that nobody started"
    ranks = start(path, 2)
    wait_until(lambda: len(metrics(path)) >= 2 or ranks.poll() is not None, "step 2")
    code, document = said(path, "embed.weihgt", "--live")
    assert (code, document["findings"][0]["code"]) == (2, "K102")
    assert "did you mean embed.weight" in document["findings"][0]["next"]
    code, document = said(path, SPLIT, "--live", "--within", "60")
    assert code == 0, (document, logs(path))
    seen = {each["tensor"]["name"].removesuffix("/" + SPLIT): each for each in document["tensors"]}
    assert list(seen) == ["model", "optim/exp_avg", "optim/exp_avg_sq", "grad"]
    step = document["step"]
    wait_until(lambda: len(metrics(path)) > step or ranks.poll() is not None, "the step after")
    os.kill(json.loads((path / "ranks" / "rank00001.json").read_text())["pid"], signal.SIGTERM)
    assert ranks.wait(timeout=60) == 0, logs(path)
    before, after = (path / "checkpoints" / f"step-{each:08d}" for each in (step - 1, step))
    for name in ("model", "optim/exp_avg", "optim/exp_avg_sq"):
        saved = inspect_tensor(after, f"{name}/{SPLIT}").to_json(num_values=8)
        assert seen[name]["tensor"]["digest"] == saved["tensor"]["digest"]
        assert {key: seen[name][key] for key in ("step", "world_size", "norm", "values")} == {
            key: saved[key] for key in ("step", "world_size", "norm", "values")
        }
        assert [piece["file"] for piece in seen[name]["tensor"]["pieces"]] == ["rank 1"], "its stage is rank 1's"
    moments = [inspect_tensor(save, f"optim/exp_avg/{SPLIT}").values.reshape(-1)[:8] for save in (before, after)]
    beta = 0.9
    np.testing.assert_allclose(
        seen["grad"]["values"], (moments[1] - beta * moments[0]) / (1 - beta), rtol=1e-3, atol=1e-8
    )
    assert not list((path / "inspections").iterdir()), "the question is taken away"
    code, document = said(path, SPLIT, "--live")
    assert (code, document["findings"][0]["code"]) == (2, "C118")
    assert "it is stopped" in json.dumps(document["findings"][0])

"""Evaluation over many named sets of uneven length: all ranks end together, and the means are right."""

from dataclasses import replace

import torch

from emberward.data import open_eval, prepare, read_manifest
from emberward.engine import Engine, build_world
from emberward.rank._signals import StopRequest
from emberward.rank._trainer import Trainer
from emberward.recipe import mesh_of
from emberward.report import RunFolder
from ranks.cases import plain_model, small_recipe

NUM_SETS, TOLERANCE = 29, 1e-5


def recipe_of(dp: int):
    recipe = small_recipe(dp=dp)
    # 320 covers the byte tokenizer; three samples a micro-batch divide hardly any set's length.
    return replace(
        recipe,
        steps=1,
        model=replace(recipe.model, vocab_size=320),
        evaluation=replace(recipe.evaluation, micro_batch=3, samples=40),
        log=replace(recipe.log, events=0),
    )


def evaluate(rank, world_size, *, manifest, folder):
    recipe = recipe_of(world_size)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    trainer = Trainer(
        recipe=recipe,
        batch=None,
        engine=Engine(recipe, world),
        train=None,
        evals=open_eval(read_manifest(manifest), seq_len=recipe.model.seq_len, max_samples=40),
        folder=RunFolder(path=folder),
        stop=StopRequest(),
        data_digest="",
        peak_tflops=None,
    )
    return trainer.evaluate()


def plain_means(manifest) -> dict[str, tuple[float, float]]:
    """Mean loss and number of tokens of each set, sample by sample, by one plain model."""
    recipe = recipe_of(1)
    model = plain_model(recipe)
    means = {}
    for name, data in open_eval(manifest, seq_len=recipe.model.seq_len, max_samples=40).items():
        loss_sum, count = 0.0, 0.0
        for index in range(data.num_samples):
            batch = data.batch([index])
            tokens, mask = torch.from_numpy(batch.tokens), torch.from_numpy(batch.mask)
            with torch.no_grad():
                logits = model(tokens[:, :-1])
            losses = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:], reduction="none")
            loss_sum += float((losses * mask[0]).sum())
            count += float(mask.sum())
        means[name] = (loss_sum / count, count)
    return means


def test_29_sets_of_uneven_length_on_dp_4(pool, tmp_path):
    sets = []
    for number in range(NUM_SETS):
        path = tmp_path / f"set{number:02d}.txt"
        path.write_text(f"{number} is the number of this set. " * (1 + number * number // 9), encoding="utf-8")
        sets.append((str(path), 1.0, f"set{number:02d}"))
    manifest = prepare(
        train=[(sets[-1][0], 1.0, "train")], evaluation=sets, tokenizer="byte", held_out=0.0,
        cache=tmp_path / "cache", progress=None,
    )  # fmt: skip
    folder = tmp_path / "run"
    folder.mkdir()
    answers = pool.run(evaluate, 4, manifest=manifest.path, folder=folder)
    expected = plain_means(manifest)
    assert len(expected) == NUM_SETS
    assert len({count for _, count in expected.values()}) > 10
    for answer in answers:
        assert answer == answers[0]
    for name, (mean, count) in expected.items():
        assert answers[0][name]["tokens"] == count
        assert abs(answers[0][name]["loss"] - mean) < TOLERANCE * mean, name

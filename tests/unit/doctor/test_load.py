"""The soak under a job's own load: the recipe's layer, in processes of its own as the doctor starts it."""

import dataclasses
import json
import os

import pytest
from ports import reserve_port
from warm import Piped, WarmServer

from emberward.doctor import Load, builtin_probes
from emberward.recipe import load_recipe, resolve

SHORT = "from emberward.doctor.probe import _work, __main__; _work.SOAK_S = 0.05; __main__.main()"
"""The probe's own main with a shorter soak."""
LOADED = ("torch", "torch.distributed", "emberward.engine", "emberward.doctor.probe._work")
"""What a soak imports."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What the members of a set of `size` answer, each forked from a process that has torch loaded."""
    folder = tmp_path_factory.mktemp("soak")
    script = folder / "soak.py"
    script.write_text(SHORT)
    server = WarmServer(*LOADED, environment={**os.environ, "OMP_NUM_THREADS": "1"})

    def answered(load: Load | None, *, size: int = 1) -> list[dict]:
        (probe,) = (probe for probe in builtin_probes("cpu", load=load) if probe.name == "soak")
        place = {"WORLD_SIZE": str(size), "MASTER_PORT": str(reserve_port()), "EMBERWARD_DEVICES": "0,1"}
        members = [
            Piped(
                server,
                [str(script), *probe.command[3:]],
                cwd=folder,
                module=None,
                env={**place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(size)
        ]
        return [json.loads(member.communicate(timeout=60)[0]) for member in members]

    yield answered
    server.close()


def load_of(preset: str, *words: str) -> Load:
    num_ranks = {"llama_405b": 16384}.get(preset, 8)
    return Load.of(resolve(load_recipe(preset, words), num_ranks=num_ranks, tokenizer_size=257))


@pytest.mark.parametrize(
    ("preset", "words", "what"),
    [
        ("bloom_tiny", ("precision.compute=bf16",), "layer 0 of bloom, {rows} x 128 x 128, bf16"),
        ("roberta_tiny", ("model.dropout=0.1",), "layer 0 of roberta, {rows} x 64 x 128, fp32"),
    ],
)
def test_the_soak_repeats_a_layer_of_the_recipe(answers, preset, words, what):
    load = load_of(preset, *words)
    (answer,) = answers(load)
    assert (answer["ok"], answer["detail"]) == (True, what.format(rows=load.rows))
    assert answer["value"] > 0
    assert answer["tries"] >= 1


def test_a_set_sums_the_gradients_of_the_recipes_layer(answers):
    first, second = answers(load_of("llama_tiny"), size=2)
    assert (first["ok"], second["ok"], first["exercised"]) == (True, True, "ring")
    assert first["detail"].split(",")[0].endswith(" of llama")


def test_a_layer_that_cannot_be_built_accuses_nobody(answers):
    load = load_of("bloom_tiny")
    strange = dataclasses.replace(load, model=dataclasses.replace(load.model, family="somewhere.else:FAMILY"))
    (answer,) = answers(strange)
    assert answer["busy"] is True
    assert "somewhere" in answer["detail"]


def test_without_a_recipe_it_is_a_block_of_its_own(answers):
    assert [answer["detail"] for answer in answers(None)] == ["a block of width 256"]


@pytest.mark.parametrize("preset", ["swin_tiny", "llama_405b"])
def test_a_load_is_one_word(preset):
    load = load_of(preset)
    assert Load.read(load.word()) == load

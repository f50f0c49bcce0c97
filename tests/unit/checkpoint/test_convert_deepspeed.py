"""DeepSpeed's checkpoints are read as DeepSpeed itself reads them, and written so that it reads them."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from unit.checkpoint.convert_samples import (
    FAMILY,
    KINDS,
    SHAPES,
    add_frozen_and_buffer,
    deepspeed_classes,
    equal,
    expected_of,
    unpacked,
    values,
    whole_tensors,
    write_tensor_parallel,
)

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form, read_manifest, verify
from emberward.findings import EmberwardError

WITHOUT_TORCH = """
import sys
from pathlib import Path
sys.modules["torch"] = None
from emberward import checkpoint
from emberward.checkpoint import Foreign, Form
places = [Path(word) for word in sys.argv[1:]]
made = checkpoint.import_checkpoint(places[0], places[1], foreign=Foreign())
checkpoint.export_checkpoint(made.written.path, places[2], form=Form.UNIVERSAL, foreign=Foreign())
checkpoint.export_checkpoint(made.written.path, places[3], form=Form.DCP, foreign=Foreign())
print(made.written.num_tensors)
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("deepspeed"))


@pytest.mark.parametrize("name", ["zero1", "zero2", "zero3"])
def test_every_weight_and_moment_is_what_deepspeed_says(real, tmp_path, name):
    made = checkpoint.import_checkpoint(real / name, tmp_path, foreign=Foreign(), num_ranks=3)
    expected = expected_of(real / name)
    assert len(expected) == 29 * 3
    assert equal(values(made.written.path), expected) == []
    assert verify(made.written.path) == ()
    manifest = read_manifest(made.written.path)
    assert (manifest.step, manifest.meta["num_updates"], manifest.world_size) == (3, 3, 3)
    assert manifest.meta["deepspeed"]["states"]["data_cursor"] == 123
    expected["model/0.tok.weight"][0, 0] += 1e-7
    assert equal(values(made.written.path), expected) == ["model/0.tok.weight"]


@pytest.mark.parametrize("name", ["zero1", "zero3"])
def test_a_universal_checkpoint_of_either_kind_is_what_it_was_made_of(real, name):
    assert equal(values(real / f"{name}_universal"), expected_of(real / name)) == []


@pytest.mark.parametrize("name", ["zero1", "zero3_universal"])
def test_the_one_universal_form_has_what_engines_of_any_stage_ask_for(real, tmp_path, name):
    """ZeRO 3's own conversion has no shapes, no steps and no mp_rank file: a ZeRO-1 engine dies of it."""
    saved = checkpoint.import_checkpoint(real / name, tmp_path / "saves", foreign=Foreign()).written.path
    result = tmp_path / "out" / "step3_universal"
    made = checkpoint.export_checkpoint(saved, result, form=Form.UNIVERSAL, foreign=Foreign())
    assert made.findings == ()
    assert (tmp_path / "out" / "latest_universal").read_text() == "step3_universal"
    expected = expected_of(real / name.removesuffix("_universal"))
    for weight in [key.removeprefix("model/") for key in expected if key.startswith("model/")]:
        folder = result / "zero" / weight
        for kind, ours in (("fp32", "model/"), ("exp_avg", "optim/exp_avg/"), ("exp_avg_sq", "optim/exp_avg_sq/")):
            loaded = torch.load(folder / f"{kind}.pt", weights_only=True)
            assert loaded["cat_dim"] == 0
            assert torch.equal(loaded["param"], expected[ours + weight])
        assert torch.load(folder / "step.pt", weights_only=True) == torch.tensor(3.0)
    assert equal(values(result), expected) == []
    model = torch.load(result / "mp_rank_00_model_states.pt", weights_only=True)
    assert (result / "zero_pp_rank_0_mp_rank_00_model_states.pt").exists()
    assert (model["mp_world_size"], model["global_steps"], model["data_cursor"]) == (1, 3, 123)
    assert [len(group) for group in model["param_shapes"]] == [29]


def test_buffers_and_frozen_parameters_come_along(real, tmp_path):
    """They are in no optimizer; under ZeRO 3 each rank has a part of a frozen one, the last part padded."""
    add_frozen_and_buffer(real / "zero3", tmp_path / "zero3")
    read = values(tmp_path / "zero3")
    assert torch.equal(read["model/frozen.weight"], torch.arange(9, dtype=torch.bfloat16).reshape(3, 3))
    assert torch.equal(read["model/counter"], torch.tensor([1, 2]))
    assert len(read) == len(expected_of(real / "zero3")) + 2
    made = checkpoint.export_checkpoint(tmp_path / "zero3", tmp_path / "out", form=Form.UNIVERSAL, foreign=Foreign())
    assert [(finding.code, finding.severity.value, finding.message) for finding in made.findings] == [
        (
            "K116",
            "notice",
            "2 tensors without moments lie in the model's file alone, where an engine does not look: "
            "counter, frozen.weight",
        )
    ]
    assert sorted(path.name for path in (tmp_path / "out" / "zero").iterdir())[:2] == ["0.pos.weight", "0.tok.weight"]


UNKNOWN_LAYOUT = """\
K110 the files are not laid out as DeepSpeed 0.8 and later lay them out
  where     ./step9
  expected  rigid ZeRO checkpoints with slice mappings (no elastic_checkpoint, no 1-bit optimizer)
  found     IndexError: list index out of range"""
NO_RULE = """\
K114 family tiny-megatron has no rule for a tensor
  where     ./family.yaml
  expected  a rule whose `theirs` fits the name, as 1.embedding.weight or {layer+2}.norm.weight do for others
  found     1.embed.weight
  next      add a rule, or list the name under `ignore`; docs/convert.md shows the form"""


def test_a_layout_that_is_not_known_is_refused_and_no_bug_of_ours(tmp_path):
    folder = write_tensor_parallel(tmp_path / "step9", tp=1, dp=1)
    path = folder / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
    torch.save({"optimizer_state_dict": {"base_optimizer_state": [], "single_partition_of_fp32_groups": []}}, path)
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign())
    assert caught.value.text().replace(str(tmp_path), ".") == UNKNOWN_LAYOUT


def test_import_and_export_need_no_torch(real, tmp_path):
    places = [str(tmp_path / name) for name in ("saves", "universal", "dcp")]
    command = [sys.executable, "-c", WITHOUT_TORCH, str(real / "zero3"), *places]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.returncode) == ("87\n", 0), done.stderr


@pytest.mark.parametrize("harm", ["gone", "cut"])
@pytest.mark.parametrize("name", ["zero1", "zero3"])
def test_a_missing_or_cut_file_is_named(real, tmp_path, name, harm):
    shutil.copytree(real / name, tmp_path / name)
    victim = sorted((tmp_path / name / "step3").glob("zero_pp_rank_1_*_optim_states.pt"))[0]
    if harm == "gone":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-200])
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(tmp_path / name, tmp_path / "saves", foreign=Foreign())
    assert caught.value.code == "K110"
    assert (victim.name if harm == "cut" else "data rank 1") in caught.value.text()
    assert not (tmp_path / "saves").exists()


# -- tensor parallelism ------------------------------------------------------------------------------------------------


@pytest.fixture
def family(tmp_path):
    path = tmp_path / "family.yaml"
    path.write_text(FAMILY)
    return str(path)


@pytest.mark.parametrize(("tp", "dp"), [(1, 1), (2, 2), (4, 3)])
def test_slices_are_joined_as_the_family_says(tmp_path, family, tp, dp):
    folder = write_tensor_parallel(tmp_path / "step9", tp=tp, dp=dp)
    made = checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign(family=family, vocab_size=11))
    read, wholes = values(made.written.path), whole_tensors()
    for kind in KINDS:
        prefix = "model/" if kind == "fp32" else f"optim/{kind}/"
        q, k, v = wholes[kind, "2.qkv.weight"].chunk(3)
        ours = {
            "embed.weight": wholes[kind, "1.embed.weight"][:11],
            "blocks.0.norm.weight": wholes[kind, "2.norm.weight"],
            "blocks.0.norm.bias": wholes[kind, "2.norm.bias"],
            "blocks.0.q.weight": q,
            "blocks.0.k.weight": k,
            "blocks.0.v.weight": v,
            "blocks.0.out.weight": wholes[kind, "2.out.weight"],
            "blocks.0.up.weight": wholes[kind, "2.up.weight"],
        }
        assert (
            equal({n: t for n, t in read.items() if n.startswith(prefix)}, {prefix + n: t for n, t in ours.items()})
            == []
        )
    assert torch.equal(read["other/deepspeed/rng"].view(torch.uint8), torch.arange(5, dtype=torch.uint8))
    assert made.findings == ()


def test_without_a_family_slices_are_not_guessed_at(tmp_path):
    folder = write_tensor_parallel(tmp_path / "step9")
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign())
    assert caught.value.text() == (
        "K114 tensor-parallel slices can be joined only with a model family\n"
        "  where     1.embed.weight\n"
        "  expected  a family that says which dim is split and what is replicated\n"
        "  found     none\n"
        "  next      give --family NAME or --family FILE.yaml; docs/convert.md shows the form"
    )


def test_a_name_without_a_rule_is_said_with_what_comes_near(tmp_path):
    path = tmp_path / "family.yaml"
    path.write_text(FAMILY.replace("1.embed.weight", "1.embedding.weight"))
    folder = write_tensor_parallel(tmp_path / "step9")
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign(family=str(path)))
    assert caught.value.text().replace(str(tmp_path), ".") == NO_RULE


@pytest.mark.parametrize(
    "text",
    ["family: x", "- 1", "family: x\ntensors: [{ours: a, theirs: b, spilt: 0}]", "family: [", "family: x\ntensors: 3"],
)
def test_a_family_file_that_says_nonsense_is_refused(tmp_path, text):
    (tmp_path / "family.yaml").write_text(text)
    folder = write_tensor_parallel(tmp_path / "step9")
    with pytest.raises(EmberwardError, match="K114 a family file cannot be read"):
        checkpoint.import_checkpoint(folder, tmp_path / "s", foreign=Foreign(family=str(tmp_path / "family.yaml")))


# -- replicas that part ----------------------------------------------------------------------------------------------

NORM = "2.norm.weight"


def test_replicas_that_part_stop_the_import_and_are_named(tmp_path, family):
    folder = write_tensor_parallel(tmp_path / "step9", tp=4, drift={NORM: {2: 0.5}})
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign(family=family))
    assert caught.value.text() == (
        "K112 replicas of model/2.norm.weight disagree by up to 0.5\n"
        "  where     model/2.norm.weight\n"
        "  expected  equal replicas\n"
        "  found     equal among themselves: ranks 0 1 3, ranks 2; 2 different values\n"
        "  next      choose what counts: --replicas majority, or --replicas rank=K"
    )


@pytest.mark.parametrize(
    ("choice", "drift", "added"),
    [
        ("majority", {2: 0.5}, 0.0),
        ("rank=2", {2: 0.5}, 0.5),
        ("average", {0: 1.0, 1: 2.0, 2: 3.0, 3: 6.0}, 3.0),
    ],
)
def test_what_counts_is_taken_and_said(tmp_path, family, choice, drift, added):
    folder = write_tensor_parallel(tmp_path / "step9", tp=4, drift={NORM: drift})
    made = checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign(family=family, replicas=choice))
    read, wholes = values(made.written.path), whole_tensors()
    for kind in KINDS:
        name = ("model/" if kind == "fp32" else f"optim/{kind}/") + "blocks.0.norm.weight"
        assert torch.allclose(read[name], wholes[kind, NORM] + added, rtol=0, atol=1e-6)
    assert [(finding.code, finding.severity.value) for finding in made.findings] == [("K112", "warning")] * 3
    assert made.findings[0].message.endswith(f"{choice} taken")


def test_without_a_majority_none_is_taken(tmp_path, family):
    folder = write_tensor_parallel(tmp_path / "step9", tp=4, drift={NORM: {2: 0.5, 3: 0.5}})
    with pytest.raises(EmberwardError, match="--replicas average"):
        checkpoint.import_checkpoint(folder, tmp_path / "s", foreign=Foreign(family=family, replicas="majority"))


def test_a_repaired_copy_is_equal_in_weights_masters_and_moments(tmp_path, family):
    """What BLOOM-176B's people wrote while it stood still."""
    drift = {NORM: {1: 0.25}, "2.norm.bias": {0: 1.0, 1: 3.0, 2: 2.0, 3: 2.0}}
    folder = write_tensor_parallel(tmp_path / "step9", tp=4, drift=drift)
    reading = Foreign(family=family, replicas="average").reading()
    done = checkpoint.repair_replicas(folder, tmp_path / "mended", reading=reading)
    assert sorted(done.tensors) == sorted(
        f"{kind}/{name}" for kind in ("model", "optim/exp_avg", "optim/exp_avg_sq") for name in (NORM, "2.norm.bias")
    )
    wholes = whole_tensors()
    for rank in range(4):
        module = torch.load(tmp_path / "mended" / f"mp_rank_{rank:02d}_model_states.pt", weights_only=True)["module"]
        for name, added in ((NORM, 0.0625), ("2.norm.bias", 2.0)):
            assert torch.equal(module[name], (wholes["fp32", name] + added).to(torch.bfloat16))
        original = torch.load(folder / f"mp_rank_{rank:02d}_model_states.pt", weights_only=True)["module"]
        assert torch.equal(module["2.up.weight"], original["2.up.weight"])
    made = checkpoint.import_checkpoint(tmp_path / "mended", tmp_path / "saves", foreign=Foreign(family=family))
    assert made.findings == ()
    read = values(made.written.path)
    assert torch.allclose(read["optim/exp_avg/blocks.0.norm.bias"], wholes["exp_avg", "2.norm.bias"] + 2.0)
    again = checkpoint.repair_replicas(tmp_path / "mended", tmp_path / "twice", reading=reading)
    assert again.tensors == ()


def test_the_command_tells_all_of_it_as_json(tmp_path, family):
    from unit.cli.door import emberward

    folder = write_tensor_parallel(tmp_path / "step9", tp=2, drift={NORM: {1: 0.25}})
    said = emberward("checkpoint", "import", str(folder), "saves", "--family", family, "--json", cwd=tmp_path)
    assert (said.code, said.document["findings"][0]["code"]) == (1, "K112")
    options = ("--family", family, "--replicas", "rank=1", "--json")
    said = emberward("checkpoint", "import", str(folder), "saves", *options, cwd=tmp_path)
    assert said.code == 0, said.err
    assert [finding["severity"] for finding in said.document["findings"]] == ["warning"] * 3
    assert json.loads(said.out)["num_tensors"] == 8 * 3 + 1
    assert set(SHAPES)


def test_what_a_source_does_not_know_is_left_to_the_engine_s_own_configuration(real, tmp_path):
    """ZeRO 3 keeps no clip in its files: a clip of 0 in its place switched clipping off when ZeRO 1 loaded it."""
    for name, clip in (("zero1", 1.0), ("zero3", None)):
        result = tmp_path / name / "step3_universal"
        checkpoint.export_checkpoint(real / name, result, form=Form.UNIVERSAL, foreign=Foreign())
        with deepspeed_classes():
            written = torch.load(result / "zero" / "optimizer_state.pt", weights_only=False)
        assert written.get("clip_grad") == clip
        assert written["param_groups"][0]["betas"] == (0.9, 0.999)
        assert written["optimizer_state_dict"]["state"][0]["step"] == 3

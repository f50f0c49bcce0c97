"""What no optimizer holds comes along: frozen parameters, buffers and tied names of real DeepSpeed checkpoints.

The samples are of DeepSpeed 0.19.8 in bf16 (see tests/data/README.md). "Loaded" is what an engine does with a file: its
``module`` into a strict ``load_state_dict``, or for ZeRO 3 fragments of the length that the rank has.
"""

import tarfile
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from unit.checkpoint.convert_samples import deepspeed_classes, equal, expected_of, values

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form, open_source
from emberward.checkpoint._foreign._contents import Held, Item, require_accounted

TAR = Path(__file__).parents[2] / "data" / "deepspeed_frozen.tar.xz"
KINDS = ("zero1", "zero2", "zero3", "pipeline", "zero1_universal", "zero3_universal")
FROZEN = ("0.pos.weight", "1.fc1.weight", "1.gate", "2.fc1.weight", "2.gate")
BUFFERS = ("0.seen", "1.average", "2.average")
EMBED = "tied_modules.embed"


def in_pipeline(name):
    return f"{EMBED}.{name[2:]}" if name.startswith("0.") else name


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    with tarfile.open(TAR) as tar:
        tar.extractall(folder, filter="data")
    return folder


def truth(real, kind):
    return expected_of(real / kind.removesuffix("_universal"))


def model():
    """The program's model as plain torch has it."""
    embed = torch.nn.Module()
    embed.tok, embed.pos = torch.nn.Embedding(24, 8), torch.nn.Embedding(32, 8)
    embed.register_buffer("seen", torch.zeros(3, dtype=torch.int64))
    blocks = []
    for _ in range(2):
        block = torch.nn.Module()
        block.ln1, block.ln2 = torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
        block.qkv, block.proj = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
        block.fc1, block.fc2 = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)
        block.gate = torch.nn.Parameter(torch.zeros(5))
        block.register_buffer("average", torch.zeros(3, 2))
        blocks.append(block)
    head = torch.nn.Module()
    head.lnf, head.head = torch.nn.LayerNorm(8), torch.nn.Linear(8, 24, bias=False)
    head.head.weight = embed.tok.weight
    return torch.nn.Sequential(embed, *blocks, head)


def weights_of(tensors):
    return {name.removeprefix("model/"): tensor for name, tensor in tensors.items() if name.startswith("model/")}


def loaded(module, *, strict=True):
    """What a model holds that was given a file's module, in full precision."""
    made = model()
    made.load_state_dict(module, strict=strict)
    return {name: tensor.detach() for name, tensor in made.state_dict().items()}


def in_full(tensors):
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_imported_bit_for_bit_and_told(real, tmp_path, kind):
    made = checkpoint.import_checkpoint(real / kind, tmp_path, foreign=Foreign(), num_ranks=3)
    assert equal(values(made.written.path), truth(real, kind)) == []
    table = {row.held: (row.found, row.imported) for row in made.table}
    num_trained = 23 if kind == "pipeline" else 25
    assert table[Held.WEIGHT] == (num_trained, num_trained) and table[Held.MOMENT] == (2 * num_trained, 2 * num_trained)
    assert (table[Held.FROZEN], table[Held.BUFFER]) == ((5, 5), (3, 3))
    names = {item.name for item in made.items if item.held in (Held.FROZEN, Held.BUFFER)}
    assert names == {in_pipeline(name) if kind == "pipeline" else name for name in (*FROZEN, *BUFFERS)}
    tied = [item for item in made.items if item.held is Held.TIED]
    assert {(item.name, item.why) for item in tied} == (
        set() if kind == "pipeline" else {("3.head.weight", "the same as 0.tok.weight")}
    )
    assert made.to_json()["table"][0]["left_out"] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("form", "num_ranks"), [(Form.ZERO_1, 2), (Form.ZERO_2, 3), (Form.ZERO_3, 2), (Form.ZERO_3, 7)]
)
def test_they_go_back_to_deepspeed_s_own_files(real, tmp_path, kind, form, num_ranks):
    saved = checkpoint.import_checkpoint(real / kind, tmp_path / "saves", foreign=Foreign()).written.path
    folder = tmp_path / "out" / "step3"
    checkpoint.export_checkpoint(saved, folder, form=form, foreign=Foreign(), num_ranks=num_ranks)
    expected = truth(real, kind)
    assert equal(values(folder), expected) == []
    heads = [torch.load(path, weights_only=True) for path in sorted(folder.glob("*model_states.pt"))]
    weights = weights_of(expected)
    if kind == "pipeline":
        assert set(heads[0]["module"]) == set(weights)
        return
    if form is not Form.ZERO_3:
        wanted = in_full({**weights, "3.head.weight": weights["0.tok.weight"]})
        assert equal(loaded(heads[0]["module"]), wanted) == []
        return
    assert {name for name, tensor in heads[0]["module"].items() if tensor.numel()} == set(BUFFERS)
    assert set(heads[0]["module"]) == {*weights, "3.head.weight"}
    for name in FROZEN:
        parts = [head["frozen_param_fragments"][name] for head in heads]
        assert {len(part) for part in parts} == {-(-weights[name].numel() // num_ranks)}
        assert torch.equal(torch.cat(parts)[: weights[name].numel()], weights[name].reshape(-1))


def test_a_pipeline_goes_back_to_a_pipeline_with_its_tied_ends(real, tmp_path):
    saved = checkpoint.import_checkpoint(real / "pipeline", tmp_path / "saves", foreign=Foreign()).written.path
    folder = tmp_path / "out" / "step3"
    checkpoint.export_checkpoint(saved, folder, form=Form.ZERO_1, foreign=Foreign(), num_ranks=4, stages="2")
    assert equal(values(folder), truth(real, "pipeline")) == []
    theirs = real / "pipeline" / "step3"
    assert {path.name for path in folder.iterdir()} == {path.name for path in theirs.iterdir()}
    for path in theirs.iterdir():
        with deepspeed_classes():
            ours, own = (torch.load(one, weights_only=False) for one in (folder / path.name, path))
        if path.name.startswith("layer_"):
            assert list(ours) and set(ours) == set(own)
            assert equal({name: ours[name].to(own[name].dtype) for name in own}, dict(own)) == []
        elif path.name.startswith("mp_rank"):
            assert ours["param_shapes"] == own["param_shapes"]
        else:
            flats = "single_partition_of_fp32_groups"
            assert torch.equal(ours["optimizer_state_dict"][flats][0], own["optimizer_state_dict"][flats][0])


@pytest.mark.parametrize("kind", KINDS)
def test_they_go_through_universal_dcp_and_hugging_face(real, tmp_path, kind):
    saved = checkpoint.import_checkpoint(real / kind, tmp_path / "saves", foreign=Foreign()).written.path
    expected = truth(real, kind)
    weights = weights_of(expected)
    for form in (Form.UNIVERSAL, Form.DCP, Form.HUGGING_FACE):
        checkpoint.export_checkpoint(saved, tmp_path / form.value, form=form, foreign=Foreign())
    assert equal(values(tmp_path / "deepspeed-universal"), expected) == []
    module = torch.load(tmp_path / "deepspeed-universal" / "mp_rank_00_model_states.pt", weights_only=True)["module"]
    untrained = {in_pipeline(name) if kind == "pipeline" else name for name in (*FROZEN, *BUFFERS)}
    assert equal(dict(module), {name: weights[name] for name in untrained}) == []
    wanted = {"model": {name: torch.empty_like(tensor) for name, tensor in weights.items()}}
    with warnings.catch_warnings(action="ignore"):
        dcp.load(wanted, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    assert equal(wanted["model"], weights) == []
    assert equal(load_file(tmp_path / "huggingface" / "model.safetensors"), weights) == []


def test_what_is_left_out_without_being_named_is_a_bug_of_ours(real):
    source = open_source(real / "zero1", Foreign().reading())
    source.require_accounted()
    forgotten = {name: stored for name, stored in source.tensors.items() if name != "model/1.gate"}
    with pytest.raises(RuntimeError, match=r"tensor module/1\.gate of .* was neither imported nor named as left out"):
        require_accounted(source.archives, forgotten, source.items)
    unnamed = [item for item in source.items if item.name != "3.head.weight"]
    require_accounted(source.archives, source.tensors, unnamed)  # it shares its bytes with a copy that is named
    copies = [item for item in unnamed if item.held is not Held.COPY]
    with pytest.raises(RuntimeError, match="was neither imported nor named"):
        require_accounted(source.archives, source.tensors, copies)
    with pytest.raises(RuntimeError, match="x was left out without a reason"):
        require_accounted((), {}, [Item(name="x", held=Held.BUFFER)])

"""DeepSpeed's own files of ZeRO 1, 2 and 3: those that are written are those that it wrote, or are cut as it cuts."""

import math
import shutil

import numpy as np
import pytest
import torch
from unit.checkpoint.convert_samples import add_frozen_and_buffer, equal, expected_of, unpacked, values

from emberward import checkpoint
from emberward.checkpoint import DType, Foreign, Form, Shard, alone
from emberward.checkpoint._foreign._native_cut import Stages, flat_part, sub_groups
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._stored import Region, Stored, flattened, join, whole
from emberward.checkpoint._foreign._torch_file import open_torch_file
from emberward.checkpoint._foreign._tree import Instance, TensorRef
from emberward.findings import EmberwardError

LEFT_OUT = {"param_alignment_paddings"}
"""Without it DeepSpeed takes parts that carry no padding between parameters, whatever its own setting is."""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("deepspeed"))


def export(source, result, form, num_ranks, stages="1"):
    return checkpoint.export_checkpoint(
        source, result, form=form, foreign=Foreign(), num_ranks=num_ranks, stages=stages
    )


def plain(file, tree):
    """A tree with its tensors as lists of bits, for comparing."""
    if isinstance(tree, TensorRef):
        with Reader() as reader:
            return (tree.dtype, tree.shape, reader.array(file.stored(tree, "t")).tolist())
    if isinstance(tree, Instance):
        return (str(tree.of), tree.args, tree.is_called, plain(file, tree.state))
    if isinstance(tree, dict):
        return {key: plain(file, item) for key, item in tree.items() if key not in LEFT_OUT}
    if isinstance(tree, (list, tuple)):
        return [plain(file, item) for item in tree]
    return tree


@pytest.mark.parametrize(
    ("name", "form", "num_ranks", "stages"),
    [("zero1", Form.ZERO_1, 4, "2"), ("zero2", Form.ZERO_2, 2, "1"), ("zero3", Form.ZERO_3, 2, "1")],
)
def test_on_the_same_ranks_each_file_says_what_deepspeed_s_own_says(real, tmp_path, name, form, num_ranks, stages):
    saved = checkpoint.import_checkpoint(real / name, tmp_path / "saves", foreign=Foreign()).written.path
    export(saved, tmp_path / "step3", form, num_ranks, stages)
    theirs = {path.name: open_torch_file(path) for path in (real / name / "step3").iterdir()}
    ours = {path.name: open_torch_file(path) for path in (tmp_path / "step3").iterdir()}
    assert set(ours) == set(theirs)
    for file, their in theirs.items():
        assert plain(ours[file], ours[file].tree) == plain(their, their.tree), file
    assert (tmp_path / "latest").read_text() == "step3"


@pytest.mark.parametrize(
    ("name", "form", "num_ranks", "stages"),
    [
        ("zero1", Form.ZERO_1, 3, "1"),
        ("zero1", Form.ZERO_1, 4, "0,1"),
        ("zero3", Form.ZERO_1, 2, "2"),
        ("zero2", Form.ZERO_3, 3, "1"),
        ("zero3_universal", Form.ZERO_3, 1, "1"),
    ],
)
def test_cut_for_other_ranks_it_is_read_back_bit_for_bit(real, tmp_path, name, form, num_ranks, stages):
    export(real / name, tmp_path / "step3", form, num_ranks, stages)
    assert equal(values(tmp_path), expected_of(real / name.removesuffix("_universal"))) == []
    num_stages = int(stages) if len(stages) == 1 else 2
    optimizers = list((tmp_path / "step3").glob("*_optim_states.pt"))
    assert len(optimizers) == num_ranks
    victim = sorted(optimizers)[0]
    data = bytearray(victim.read_bytes())
    record = max(open_torch_file(victim).storages.values(), key=lambda record: record.num_bytes)
    data[record.begin] ^= 1
    victim.write_bytes(data)
    with pytest.raises(EmberwardError, match=r"K123 record data/. does not have its checksum"):
        values(tmp_path)
    model = open_torch_file(sorted((tmp_path / "step3").glob("*mp_rank_00_model_states.pt"))[0]).tree
    assert (model["dp_world_size"], model["mp_world_size"]) == (num_ranks // num_stages, num_stages)


def test_buffers_and_frozen_parameters_go_back_to_where_zero_3_has_them(real, tmp_path):
    add_frozen_and_buffer(real / "zero3", tmp_path / "zero3")
    before = values(tmp_path / "zero3")
    export(tmp_path / "zero3", tmp_path / "again" / "step3", Form.ZERO_3, 4)
    assert equal(values(tmp_path / "again"), before) == []
    export(tmp_path / "zero3", tmp_path / "one" / "step3", Form.ZERO_1, 2)
    module = torch.load(tmp_path / "one" / "step3" / "mp_rank_00_model_states.pt", weights_only=True)["module"]
    assert torch.equal(module["frozen.weight"], torch.arange(9, dtype=torch.bfloat16).reshape(3, 3))
    assert torch.equal(module["counter"], torch.tensor([1, 2]))


def test_a_source_that_does_not_tell_the_order_is_refused(tmp_path):
    tensors = {name: torch.ones(4) for name in ("model/a", "optim/exp_avg/a", "optim/exp_avg_sq/a")}
    shards = [Shard(name=name, global_shape=(4,), box=((0, 4),), tensor=tensor) for name, tensor in tensors.items()]
    checkpoint.save(tmp_path / "saves", step=7, shards=shards, meta={}, rank=0, world_size=1, agree=alone)
    with pytest.raises(EmberwardError) as caught:
        export(tmp_path / "saves", tmp_path / "out", Form.ZERO_1, 1)
    assert caught.value.text() == (
        "K120 the source does not tell how DeepSpeed's optimizer orders and treats its parameters\n"
        f"  where     {tmp_path}/saves/step-00000007\n"
        "  expected  a checkpoint of DeepSpeed, or one that was imported from it\n"
        "  found     1 trained parameters, 0 of them in 0 groups\n"
        "  next      write it as deepspeed-universal, which an engine of any stage loads"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("form", "num_ranks", "stages", "said"),
    [
        (Form.ZERO_1, 3, "2", "K120 the ranks cannot be cut so"),
        (Form.ZERO_2, 2, "2", "K120 the ranks cannot be cut so"),
        (Form.ZERO_3, 2, "2", "K120 the ranks cannot be cut so"),
        (Form.ZERO_1, 2, "two", "K120 the pipeline stages are not understood"),
        (Form.ZERO_1, 2, "0,9", "K120 pipeline stage 1 would have no parameter"),
    ],
)
def test_ranks_and_stages_that_do_not_fit_are_refused(real, tmp_path, form, num_ranks, stages, said):
    with pytest.raises(EmberwardError, match=said):
        export(real / "zero1", tmp_path / "out", form, num_ranks, stages)


def test_a_pipeline_needs_numbered_layers_and_one_stage_does_not(real, tmp_path):
    shutil.copytree(real / "zero3", tmp_path / "zero3")
    for path in (tmp_path / "zero3" / "step3").glob("*_model_states.pt"):
        tree = torch.load(path, weights_only=True)
        for shapes in tree["param_shapes"]:
            for name in list(shapes):
                shapes["layers." + name] = shapes.pop(name)
        torch.save(tree, path)
    with pytest.raises(EmberwardError, match="K120 a parameter is in no numbered layer"):
        export(tmp_path / "zero3", tmp_path / "out", Form.ZERO_1, 2, "2")
    export(tmp_path / "zero3", tmp_path / "out", Form.ZERO_1, 2)


# -- the sums ----------------------------------------------------------------------------------------------------------


def test_layers_are_cut_as_uniform_cuts_them():
    """Values of DeepSpeed 0.19.8's partition_uniform."""
    cases = {(4, 2): (0, 2), (5, 2): (0, 3), (7, 3): (0, 3, 5), (10, 4): (0, 3, 6, 8), (3, 3): (0, 1, 2)}
    for (num_layers, count), starts in cases.items():
        assert Stages.parse(str(count)).starts(num_layers) == starts
    assert Stages.parse("0,5,9").starts(10) == (0, 5, 9)


def test_parts_of_zero_1_tile_the_group_and_are_aligned():
    for num_elements in (1, 2, 7, 16, 4097):
        for num_ranks in (1, 2, 3, 8):
            parts = [flat_part(num_elements, num_ranks, rank) for rank in range(num_ranks)]
            sizes = {end - begin + padding for begin, end, padding in parts}
            assert len(sizes) == 1 and sizes.pop() % 2 == 0
            assert sum(end - begin for begin, end, _ in parts) == num_elements
            assert [begin for begin, _, _ in parts[1:]] == [end for _, end, _ in parts[:-1]]


def test_sub_groups_close_when_they_are_full():
    assert sub_groups([3, 3, 3], 100) == [[0, 1, 2]]
    assert sub_groups([3, 3, 3, 1], 6) == [[0, 1], [2, 3]]
    assert sub_groups([9, 1, 1], 6) == [[0], [1, 2]]


def test_any_regions_come_end_to_end(tmp_path):
    """Blocks of rows, of columns, a turned matrix and padding, against numpy."""
    data = np.arange(60, dtype="<u4")
    rows = whole("rows", DType.F32, (3, 4), data[:12].tobytes())
    columns = whole("columns", DType.F32, (3, 2), data[12:18].tobytes())
    turned = Stored(
        name="turned",
        dtype=DType.F32,
        shape=(3, 5),
        regions=(Region(box=((0, 3), (0, 5)), where=data[20:35].tobytes(), offset=0, strides=(1, 3)),),
    )
    made = join("made", (3, 12), [((0, 0), rows), ((0, 4), columns), ((0, 6), turned)])
    expected = np.zeros((3, 12), dtype="<u4")
    expected[:, :4], expected[:, 4:6] = data[:12].reshape(3, 4), data[12:18].reshape(3, 2)
    expected[:, 6:11] = data[20:35].reshape(5, 3).T
    with Reader() as reader:
        assert reader.array(flattened(made)).tolist() == expected.reshape(-1).tolist()
        cube = whole("cube", DType.F32, (3, 4, 5), data.tobytes())
        flat = flattened(cube)
        assert (len(flat.regions), flat.shape) == (1, (math.prod(cube.shape),))
        assert reader.array(flat).tolist() == data.tolist()
        point = whole("point", DType.F32, (), data[7:8].tobytes())
        assert reader.array(flattened(point)).tolist() == [7]

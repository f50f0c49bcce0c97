"""What is saved on one layout is read bit-equal on any other, and files are what their format says."""

import random
import zlib

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from unit.checkpoint.checkpoint_ranks import blank, cut, is_bit_equal, random_bits, require_saved, save_all, spread

from emberward.checkpoint import (
    Shard,
    add_digests,
    digest_findings,
    digest_of,
    latest,
    load,
    read_manifest,
    verify,
)
from emberward.findings import EmberwardError

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.uint16,
]
tensor_specs = st.lists(
    st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 7), max_size=4).map(tuple)), min_size=1, max_size=4
)


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    specs=tensor_specs,
    save_ranks=st.integers(1, 4),
    load_ranks=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_any_tiling_is_read_bit_equal_on_any_other(specs, save_ranks, load_ranks, seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    tensors = {f"layer.{i}/w": random_bits(dtype, shape, seed + i) for i, (dtype, shape) in enumerate(specs)}
    path = require_saved(save_all(folder, spread(tensors, save_ranks, seed), meta={"seed": seed}))
    manifest = read_manifest(path)
    assert (manifest.step, manifest.world_size, manifest.meta) == (100, save_ranks, {"seed": seed})
    assert verify(path) == ()
    wanted = spread(tensors, load_ranks, seed + 1, make=blank)
    for shards in wanted:
        load(path, shards)
        for shard in shards:
            assert is_bit_equal(shard.tensor, cut(shard.name, tensors[shard.name], shard.box).tensor), shard.name
    digests: dict[str, list[int]] = {}
    for shards in wanted:
        for name, share in digest_of(shards).items():
            digests.setdefault(name, []).append(share)
    totals = {name: add_digests(shares) for name, shares in digests.items()}
    assert totals == {name: entry.digest for name, entry in manifest.tensors.items()}
    assert digest_findings(path, manifest, totals) == ()


def test_pieces_longer_than_a_block_are_read_whole_in_part_and_across_blocks(tmp_path):
    whole = random_bits(torch.bfloat16, (900, 1300), 7)  # 2.3 MiB
    path = require_saved(save_all(tmp_path, [[cut("w", whole, ((0, 900), (0, 1300)))]]))
    rng = random.Random(7)
    boxes = [((0, 900), (0, 1300)), ((450, 451), (0, 1300)), ((0, 900), (600, 601)), ((899, 900), (1299, 1300))]
    for _ in range(20):
        boxes.append(tuple(tuple(sorted(rng.sample(range(length + 1), 2))) for length in whole.shape))
    for box in boxes:
        shard = blank("w", whole, box)
        load(path, [shard])
        assert is_bit_equal(shard.tensor, cut("w", whole, box).tensor), box


def test_the_same_values_from_another_layout_have_the_same_digests(tmp_path):
    tensors = {"a": random_bits(torch.float32, (33, 9), 1), "b": random_bits(torch.int64, (70,), 2)}
    manifests = []
    for ranks in (1, 2, 5):
        path = require_saved(save_all(tmp_path / str(ranks), spread(tensors, ranks, ranks)))
        manifests.append(read_manifest(path))
    first = {name: entry.digest for name, entry in manifests[0].tensors.items()}
    for manifest in manifests[1:]:
        assert {name: entry.digest for name, entry in manifest.tensors.items()} == first


def test_a_changed_value_is_named_by_its_digest(tmp_path):
    whole = random_bits(torch.float32, (8, 8), 3)
    path = require_saved(save_all(tmp_path, [[cut("layers.3.norm", whole, ((0, 8), (0, 8)))]]))
    whole.view(torch.int32)[5, 5] ^= 1
    shares = digest_of([cut("layers.3.norm", whole, ((0, 8), (0, 8)))])
    findings = digest_findings(path, read_manifest(path), shares)
    assert [(finding.code, "layers.3.norm" in finding.message) for finding in findings] == [("K101", True)]


def test_files_are_safetensors_and_their_crc_is_that_of_all_their_bytes(tmp_path):
    tensors = {
        "model.embed": random_bits(torch.bfloat16, (10, 6), 1),
        "optim.step": torch.tensor(41, dtype=torch.int64),
        "größe": random_bits(torch.float64, (3,), 2),
        "flags": random_bits(torch.bool, (5,), 3),
    }
    shards = [[cut(name, whole, tuple((0, n) for n in whole.shape)) for name, whole in tensors.items()]]
    path = require_saved(save_all(tmp_path, shards))
    read = load_file(path / "rank-00000.safetensors")
    assert set(read) == {"model.embed[0:10, 0:6]", "optim.step[]", "größe[0:3]", "flags[0:5]"}
    for key, tensor in read.items():
        assert is_bit_equal(tensor, tensors[key[: key.index("[")]])
    (entry,) = read_manifest(path).files
    data = (path / entry.name).read_bytes()
    assert (len(data), zlib.crc32(data)) == (entry.size_bytes, entry.crc32)
    assert zlib.crc32(data[: entry.header_bytes]) == entry.header_crc32


def test_each_byte_is_written_once_and_ranks_without_pieces_write_no_file(tmp_path):
    whole = random_bits(torch.float32, (64, 64), 1)
    half = ((0, 32), (0, 64)), ((32, 64), (0, 64))
    shards = [[cut("w", whole, half[0])], [], [cut("w", whole, half[1])]]
    path = require_saved(save_all(tmp_path, shards))
    assert sorted(p.name for p in path.iterdir()) == [
        "manifest.json",
        "rank-00000.safetensors",
        "rank-00002.safetensors",
    ]
    entries = read_manifest(path).files
    assert sum(entry.size_bytes - entry.header_bytes for entry in entries) == 64 * 64 * 4


def test_a_save_of_nothing_and_tensors_without_elements(tmp_path):
    path = require_saved(save_all(tmp_path, [[], []], meta={"note": "empty"}))
    assert latest(tmp_path) == path and read_manifest(path).tensors == {} and verify(path) == ()
    empty = torch.empty(0, 4)
    path = require_saved(save_all(tmp_path, [[cut("e", empty, ((0, 0), (0, 4)))], []], step=101))
    shard = blank("e", empty, ((0, 0), (0, 4)))
    load(path, [shard])
    with pytest.raises(EmberwardError, match="shape"):
        load(path, [Shard(name="e", global_shape=(1, 4), box=((0, 0), (0, 4)), tensor=torch.empty(0, 4))])


def test_a_load_leaves_the_autograd_leaf_a_leaf(tmp_path):
    weight = torch.nn.Parameter(torch.randn(4, 4))
    shard = Shard(name="w", global_shape=(4, 4), box=((0, 4), (0, 4)), tensor=weight)
    path = require_saved(save_all(tmp_path, [[shard]]))
    saved = weight.detach().clone()
    with torch.no_grad():
        weight.zero_()
    load(path, [shard])
    assert torch.equal(weight, saved) and weight.is_leaf and weight.requires_grad


@pytest.mark.parametrize("meta", [{"loss": 2.5, "größe": [1, None, {"a": True}]}, {}])
def test_meta_comes_back_as_it_was(tmp_path, meta):
    assert read_manifest(require_saved(save_all(tmp_path, [[]], meta=meta))).meta == meta

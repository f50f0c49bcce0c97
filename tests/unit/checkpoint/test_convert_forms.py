"""Hugging Face and DCP: what goes out comes back bit for bit, and the programs themselves load it."""

import json
import pickle
import zipfile
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from transformers import BloomConfig, BloomForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from unit.checkpoint.convert_samples import equal, values

from emberward import checkpoint
from emberward.checkpoint import DType, Foreign, Form, Shard, alone
from emberward.checkpoint._foreign import _emit, _torch_write, _tree, _unpickle
from emberward.checkpoint._foreign._bits import convert
from emberward.checkpoint._foreign._family import family_names, fuse, read_family, split_fused
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._stored import whole
from emberward.families import ModelConfig, model_of
from emberward.findings import EmberwardError

DATA = Path(__file__).parents[2] / "data"
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def small_model(kind):
    torch.manual_seed(3)
    if kind == "bloom":
        return BloomForCausalLM(BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=2)).eval()
    is_tied = kind == "llama-tied"
    config = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=is_tied,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


HALF, FULL = torch.bfloat16, torch.float32


@pytest.mark.parametrize(
    ("kind", "shard", "stored"),
    [("bloom", "8kB", HALF), ("bloom", "5GB", FULL), ("llama", "8kB", FULL), ("llama-tied", "8kB", HALF)],
)
def test_a_model_goes_in_and_out_with_equal_logits(tmp_path, kind, shard, stored):
    small_model(kind).to(stored).save_pretrained(tmp_path / "theirs", max_shard_size=shard)
    model = small_model(kind)
    model = type(model).from_pretrained(tmp_path / "theirs", dtype=torch.float32).eval()
    made = checkpoint.import_checkpoint(tmp_path / "theirs", tmp_path / "saves", foreign=Foreign(), step=0, num_ranks=2)
    names = {tensor.name for tensor in checkpoint.describe(made.written.path).tensors}
    assert "model/embed.weight" in names and all(name.startswith("model/") for name in names)
    assert ("model/head.weight" in names) == (kind == "llama")
    assert made.findings == ()
    dtypes = {str(tensor.dtype) for tensor in checkpoint.describe(made.written.path).tensors}
    assert dtypes == {"BF16" if stored is HALF else "F32"}
    small = 8000 if shard == "8kB" else 5_000_000_000
    checkpoint.export_checkpoint(
        made.written.path, tmp_path / "ours", form=Form.HUGGING_FACE, foreign=Foreign(), max_shard_bytes=small
    )
    assert (tmp_path / "ours" / "model.safetensors.index.json").exists() == (shard == "8kB")
    back = type(model).from_pretrained(tmp_path / "ours", dtype=torch.float32).eval()
    with torch.no_grad():
        assert torch.equal(model(TOKENS).logits, back(TOKENS).logits)
        next(back.parameters()).add_(0.1)
        assert not torch.equal(model(TOKENS).logits, back(TOKENS).logits)


def test_a_model_of_no_known_family_keeps_its_names_and_says_so(tmp_path):
    small_model("llama").save_pretrained(tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**config, "model_type": "grok"}))
    made = checkpoint.import_checkpoint(tmp_path / "theirs", tmp_path / "saves", foreign=Foreign(), step=0)
    assert [(finding.code, finding.severity.value, finding.message, finding.next) for finding in made.findings] == [
        (
            "K122",
            "notice",
            "model type grok is of no known family (bloom, bloom-megatron, llama, roberta): "
            "tensors keep their own names",
            "give --family NAME or --family FILE.yaml; docs/convert.md shows the form",
        )
    ]
    assert "model/model.layers.0.mlp.up_proj.weight" in values(made.written.path)
    checkpoint.export_checkpoint(made.written.path, tmp_path / "again", form=Form.HUGGING_FACE, foreign=Foreign())
    assert equal(values(tmp_path / "again"), values(tmp_path / "theirs")) == []


def test_a_family_of_one_s_own_is_written_from_the_page_alone(tmp_path):
    """The second example of docs/convert.md, on a model that transformers made."""
    page = Path(__file__).parents[3] / "docs" / "convert.md"
    (tmp_path / "gpt2.yaml").write_text(page.read_text().split("```yaml\n")[2].partition("```")[0])
    torch.manual_seed(3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32)).eval()
    model.save_pretrained(tmp_path / "theirs", max_shard_size="8kB")
    foreign = Foreign(family=str(tmp_path / "gpt2.yaml"))
    made = checkpoint.import_checkpoint(tmp_path / "theirs", tmp_path / "saves", foreign=foreign, step=0)
    assert "model/blocks.1.mlp.up.weight" in values(made.written.path)
    checkpoint.export_checkpoint(made.written.path, tmp_path / "ours", form=Form.HUGGING_FACE, foreign=Foreign())
    back = GPT2LMHeadModel.from_pretrained(tmp_path / "ours", dtype=torch.float32).eval()
    with torch.no_grad():
        assert torch.equal(model(TOKENS).logits, back(TOKENS).logits)


def test_an_export_in_bf16_is_what_torch_rounds_to(tmp_path):
    model = small_model("llama")
    model.save_pretrained(tmp_path / "theirs")
    options = {"form": Form.HUGGING_FACE, "foreign": Foreign(), "dtype": DType.BF16}
    checkpoint.export_checkpoint(tmp_path / "theirs", tmp_path / "ours", **options)
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["dtype"] == "bfloat16"
    written = load_file(tmp_path / "ours" / "model.safetensors")
    assert equal(written, {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}) == []


def test_number_types_are_converted_as_torch_converts_them():
    odd = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        1e-40,
        3e38,
        float("inf"),
        -float("inf"),
        1.00390625,
        1.01171875,
        65504.0,
        65520.0,
        1e-8,
    ]
    numbers = torch.cat([torch.tensor(odd), torch.randn(4096) * 1e3])
    names = {DType.BF16: torch.bfloat16, DType.F16: torch.float16, DType.F64: torch.float64, DType.F32: torch.float32}
    for dtype, name in names.items():
        bits = convert(numbers.numpy().view("<u4"), DType.F32, dtype)
        again = convert(bits, dtype, DType.F32)
        assert np.array_equal(bits.view(np.uint8), numbers.to(name).view(torch.uint8).numpy()), dtype
        assert np.array_equal(again.view(np.float32), numbers.to(name).float().numpy()), dtype
    assert np.isnan(convert(np.array([0x7F800001], dtype="<u4"), DType.F32, DType.BF16).astype("<u4") << 16).sum() == 0


def test_a_checkpoint_of_the_hub_lacks_the_prefix_and_is_known(tmp_path):
    from safetensors.torch import save_file

    model = small_model("bloom")
    state = {
        name.removeprefix("transformer."): t.clone()
        for name, t in model.state_dict().items()
        if name != "lm_head.weight"
    }
    (tmp_path / "hub").mkdir()
    save_file(state, tmp_path / "hub" / "model.safetensors")
    (tmp_path / "hub" / "config.json").write_text(json.dumps({"model_type": "bloom"}))
    model.save_pretrained(tmp_path / "theirs")
    assert checkpoint.diff(tmp_path / "hub", tmp_path / "theirs", reading=Foreign().reading()).differences == ()


def test_the_family_file_names_every_tensor_of_a_bloom_as_transformers_does():
    sizes = {"num_layers": 2, "hidden": 8, "num_heads": 2, "ffn_hidden": 32, "vocab_size": 40, "seq_len": 4}
    model = model_of(ModelConfig(**sizes, init_std=0.1))
    theirs = dict(read_family("bloom").to_theirs(list(model.tensors)))
    config = BloomConfig(vocab_size=40, hidden_size=8, n_layer=2, n_head=2)
    with torch.device("meta"):
        expected = {name: tuple(param.shape) for name, param in BloomForCausalLM(config).named_parameters()}
    assert {name: model.shapes[match.ours[0]] for name, match in theirs.items()} == expected


@pytest.mark.parametrize("groups", [1, 2])
def test_fused_tensors_come_apart_and_together(groups):
    rule = read_family("llama").rules[0]
    parts = ("q", "k", "v")
    rule = type(rule)(ours=parts, theirs="qkv", split=0, parts=1, rows=(4, 2, 2), groups=groups, is_vocab=False)
    fused = torch.arange(32, dtype=torch.float32).reshape(8, 4)
    stored = whole("qkv", DType.F32, (8, 4), fused.numpy().tobytes())
    per_group = fused.reshape(groups, 8 // groups, 4)
    ends = (0, 4 // groups, 6 // groups, 8 // groups)
    with Reader() as reader:
        apart = split_fused(rule, stored, parts)
        for index, part in enumerate(apart):
            expected = per_group[:, ends[index] : ends[index + 1]].reshape(-1, 4)
            assert np.array_equal(reader.array(part).view("<f4"), expected.numpy())
        assert np.array_equal(reader.array(fuse(rule, apart, "qkv")).view("<f4"), fused.numpy())


def test_every_family_that_comes_with_it_can_be_read():
    assert set(family_names()) >= {"bloom", "bloom-megatron", "llama"}
    for name in family_names():
        assert read_family(name).name == name
    match = read_family("bloom-megatron").match("7.self_attention.dense.weight")
    assert (match.ours, match.rule.split) == (("blocks.4.attention.out.weight",), 1)
    assert read_family("bloom-megatron").match("75.weight").ours == ("final_norm.weight",)


# -- DCP ---------------------------------------------------------------------------------------------------------------


def trained():
    """A model and its optimizer's state as a nested state dict."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3).to(torch.bfloat16))
    state = {
        name: {"exp_avg": torch.randn(5, 6), "exp_avg_sq": torch.rand(5, 6), "step": torch.tensor(4.0)}
        for name in ["0.weight"]
    }
    return {
        "model": model.state_dict(),
        "optim": {"state": state, "param_groups": [{"lr": 0.25, "betas": (0.9, 0.95), "params": ["0.weight"]}]},
        "step": 11,
    }


@pytest.mark.filterwarnings("ignore")
def test_dcp_comes_in_and_goes_out_as_it_was(tmp_path):
    state = trained()
    dcp.save(state, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    made = checkpoint.import_checkpoint(tmp_path / "dcp", tmp_path / "saves", foreign=Foreign(), num_ranks=2)
    read = values(made.written.path)
    assert made.written.path.name == "step-00000011"
    assert torch.equal(read["model/1.weight"], state["model"]["1.weight"])
    assert torch.equal(read["optim/exp_avg/0.weight"], state["optim"]["state"]["0.weight"]["exp_avg"])
    checkpoint.export_checkpoint(made.written.path, tmp_path / "back", form=Form.DCP, foreign=Foreign(), num_ranks=2)
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(tmp_path / "back", tmp_path / "back.pt")
    loaded = torch.load(tmp_path / "back.pt", weights_only=False)
    assert equal(loaded["model"], dict(state["model"])) == []
    assert equal(loaded["optim"]["state"]["0.weight"], state["optim"]["state"]["0.weight"]) == []
    assert (loaded["optim"]["param_groups"], loaded["step"]) == (state["optim"]["param_groups"], 11)


@pytest.mark.filterwarnings("ignore")
def test_a_save_of_ours_is_loaded_by_dcp(tmp_path):
    weight = torch.randn(7, 3)
    names = ["model/a.weight", "optim/exp_avg/a.weight", "optim/exp_avg_sq/a.weight"]
    shards = [
        Shard(name=name, global_shape=(7, 3), box=((0, 7), (0, 3)), tensor=weight * (n + 1))
        for n, name in enumerate(names)
    ]
    checkpoint.save(tmp_path / "saves", step=5, shards=shards, meta={}, rank=0, world_size=1, agree=alone)
    checkpoint.export_checkpoint(tmp_path / "saves", tmp_path / "dcp", form=Form.DCP, foreign=Foreign())
    wanted = {
        "model": {"a.weight": torch.zeros(7, 3)},
        "optim": {"state": {"a.weight": {"exp_avg_sq": torch.zeros(7, 3)}}},
    }
    dcp.load(wanted, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    assert torch.equal(wanted["model"]["a.weight"], weight)
    assert torch.equal(wanted["optim"]["state"]["a.weight"]["exp_avg_sq"], weight * 3)


def test_shards_of_several_ranks_are_put_together():
    """Written by two gloo ranks: a matrix split by rows and by columns."""
    read = values(DATA / "dcp_two_ranks")
    for name in ("model/rows", "model/cols"):
        assert torch.equal(read[name], torch.arange(35.0).reshape(7, 5))


# -- foreign pickles ---------------------------------------------------------------------------------------------------


class Runs:
    """A pickle of this calls os.system."""

    def __reduce__(self):
        import os

        return os.system, ("touch ran",)


def test_a_pickle_that_would_run_something_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dcp"
    folder.mkdir()
    (folder / ".metadata").write_bytes(pickle.dumps(Runs()))
    with pytest.raises(EmberwardError) as caught:
        checkpoint.import_checkpoint(folder, tmp_path / "saves", foreign=Foreign())
    assert caught.value.text() == (
        "K111 a foreign file names something that is not known, and was not run\n"
        f"  where     {folder / '.metadata'}\n"
        "  expected  tensors, plain values and classes of torch, DeepSpeed and Megatron\n"
        "  found     posix.system\n"
        "  next      if you trust the file, save it again without this value; nothing of it was executed"
    )
    assert not (tmp_path / "ran").exists()


def test_damaged_pickles_are_errors_that_name_the_file_and_nothing_else(tmp_path):
    """Every prefix, and bytes flipped here and there: never another exception, never a hang."""
    whole_one = pickle.dumps({"a": [1, 2.5, "x", (None, True)], 3: b"bytes"}, protocol=2)
    damaged = [whole_one[:n] for n in range(len(whole_one) - 1)]
    damaged += [whole_one[:n] + bytes([whole_one[n] ^ 0x55]) + whole_one[n + 1 :] for n in range(len(whole_one))]
    for data in damaged:
        try:
            _unpickle.unpickle(data, "file.pt")
        except EmberwardError as error:
            assert error.code in ("K110", "K111") and "file.pt" in error.text()


def test_what_is_written_as_a_pickle_is_what_python_reads():
    tree = {
        "a": [1, -1, 2**40, -(2**70), 0.5, True, None, "ü\n", b"\x00\xff"],
        "b": (1, (2, [])),
        3: {"x": {}},
        "big": 2**31,
    }
    data = _emit.pickled(tree)
    assert pickle.loads(data) == tree
    assert _unpickle.unpickle(data, "x") == tree
    assert _tree.from_json(json.loads(json.dumps(_tree.to_json(tree, lambda _: None))), lambda _: None) == tree


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn, torch.uint16]
)
def test_every_number_type_goes_through_a_torch_file(tmp_path, dtype):
    from emberward.checkpoint._foreign._torch_file import open_torch_file
    from emberward.checkpoint._foreign._torch_write import write_torch_file

    tensor = torch.arange(24).reshape(4, 6).to(dtype)
    torch.save({"whole": tensor, "column": tensor[:, 2], "turned": tensor.T}, tmp_path / "theirs.pt")
    theirs = open_torch_file(tmp_path / "theirs.pt")
    tree = {key: theirs.stored(ref, key) for key, ref in theirs.tree.items()}
    with (tmp_path / "ours.pt").open("w+b", buffering=0) as file:
        write_torch_file(file, "archive", tree, lambda _: None)
    loaded = torch.load(tmp_path / "ours.pt", weights_only=True, mmap=True)
    expected = {"whole": tensor, "column": tensor[:, 2], "turned": tensor.T}
    assert equal(loaded, {name: part.contiguous() for name, part in expected.items()}) == []


def test_an_archive_of_more_than_4_gb_is_read_by_torch_and_zip(tmp_path, monkeypatch):
    """With the wide fields from 1,000 bytes on, so that the test needs no 4 GB."""
    monkeypatch.setattr(_torch_write, "_WIDE_FROM", 1000)
    tensors = {name: torch.arange(n, dtype=torch.float32) for name, n in (("a", 7), ("b", 5000), ("c", 200))}
    tree = {name: whole(name, DType.F32, tuple(t.shape), t.numpy().tobytes()) for name, t in tensors.items()}
    with FileIO(tmp_path / "wide.pt", "w+") as file:
        _torch_write.write_torch_file(file, "wide", tree, lambda _: None)
    assert equal(torch.load(tmp_path / "wide.pt", weights_only=True), tensors) == []
    with zipfile.ZipFile(tmp_path / "wide.pt") as archive:
        assert archive.testzip() is None
        assert [entry.create_version for entry in archive.infolist()] == [20, 45, 45, 45, 45, 45]
    data = bytearray((tmp_path / "wide.pt").read_bytes())
    data[data.index(tensors["b"][100:105].numpy().tobytes())] ^= 1
    (tmp_path / "bad.pt").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "bad.pt") as archive:
        assert archive.testzip() == "wide/data/1"

"""Families on ranks beyond the grid: a crash, a resume, another layout; a llama by the verbs from end to end."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from unit.cli.door import emberward
from unit.engine.test_toy_family import PAGE, write_family

from emberward import checkpoint
from emberward.checkpoint import latest
from emberward.engine import StageModule
from emberward.engine._shard import materialise
from emberward.families import model_of
from emberward.recipe import read_resolved
from emberward.report import RunFolder
from ranks.cases import relative
from ranks.runs import curve, write_text
from ranks.save_cases import train
from ranks.test_huggingface import shards_of

FIRST_LOSS, ALL_LOSSES = 1e-6, 1e-5
PAGE_LIMIT_S = 300.0
LOGITS = 2e-6
"""Greatest difference of logits of order 1 in float32."""


def logits_of(save, tokens) -> torch.Tensor:
    """What our own modules give for `tokens` with the weights of a run's save."""
    config = read_resolved(RunFolder(path=save.parent.parent).config).recipe.model
    model = StageModule(config, range(len(model_of(config).blocks)), None)
    materialise(model, torch.device("cpu"))
    checkpoint.load(save, shards_of(model))
    with torch.no_grad():
        return model(tokens)


@pytest.mark.parametrize(("family", "rate"), [("roberta", 0.1), ("llama", 0.0)])
def test_a_run_is_resumed_bitwise_and_goes_on_alike_on_another_layout(pool, tmp_path, family, rate):
    straight, crashed, other = (tmp_path / name for name in ("straight", "crashed", "other"))
    settings = {"steps": 6, "family": family, "rate": rate, "accumulation": 2}
    pool.run(train, 2, folder=str(straight), tp=2, **settings)
    pool.run(train, 2, folder=str(crashed), tp=2, crash_at=5, **settings)
    assert curve(crashed) == curve(straight)[:5]
    shutil.copytree(crashed, other, symlinks=True)
    answers = pool.run(train, 2, folder=str(crashed), tp=2, **settings)
    assert {answer["resumed"] for answer in answers} == {4}
    assert curve(crashed) == curve(straight)
    pool.run(train, 4, folder=str(other), dp=2, pp=2, zero=3, **settings)
    losses = [[loss for _, loss, _, _ in curve(folder)] for folder in (other, straight)]
    assert relative(*losses) < ALL_LOSSES


def test_a_llama_of_transformers_is_imported_trained_on_and_exported_by_the_verbs(tmp_path):
    write_text(tmp_path / "text")
    sizes = {"vocab_size": 264, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}
    torch.manual_seed(5)
    LlamaForCausalLM(LlamaConfig(**sizes, **heads, bos_token_id=0, eos_token_id=0)).save_pretrained(tmp_path / "hf")

    def said(*words):
        found = emberward(*words, cwd=tmp_path, has_torch=words[0] == "checkpoint")
        assert found.code == 0, found.err
        return found

    said("checkpoint", "import", "hf", "imported", "--dtype", "F32")
    said("checkpoint", "export", "imported", "back")
    theirs, back = load_file(tmp_path / "hf" / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert {name: each.numpy().tobytes() for name, each in back.items()} == {
        name: each.numpy().tobytes() for name, each in theirs.items()
    }

    model = (
        "model.vocab_size=264", "model.hidden=32", "model.ffn_hidden=48", "model.num_layers=2", "model.num_heads=4",
        "model.seq_len=32",
    )  # fmt: skip
    layout = ("--ranks", "1", "layout.dp=1", "layout.tp=1", "layout.pp=1")
    more = (
        "batch.global_batch=8", "batch.micro_batch=4", "optim.warmup_samples=0", "steps=6", "data.train=text",
        "data.held_out=0", "sample_tokens=0",
    )  # fmt: skip
    start = ("name=on", "start.checkpoint=imported", "--no-check")
    said("train", "llama_tiny", *layout, *model, *more, *start)
    said("checkpoint", "export", "on", "exported")
    (run,) = (tmp_path / "runs" / "on").iterdir()
    save = latest(run / "checkpoints")
    assert save is not None
    tokens = torch.arange(64).reshape(2, 32) * 7 % 257
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "exported", dtype=torch.float32).eval()
    with torch.no_grad():
        first = AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32).eval()(tokens).logits
        trained = exported(tokens).logits
    assert (logits_of(save, tokens) - trained).abs().max().item() < LOGITS
    assert (first - trained).abs().max().item() > 100 * LOGITS, "six steps changed the weights"
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["loss"] < metrics[0]["loss"]


def test_the_page_s_family_from_outside_trains_alike_on_one_rank_and_on_four_by_the_page_s_commands(tmp_path):
    write_family(tmp_path)
    texts = sorted(write_text(tmp_path / "texts", num_files=40).iterdir())
    (tmp_path / "my.txt").write_text("\n".join(each.read_text() for each in texts))
    shell = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (commands,) = (block for block in shell if block.startswith("export PYTHONPATH"))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-e"],
        input=commands,
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PAGE_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    one, four = (
        [loss for _, loss, *_ in curve(next((tmp_path / "runs" / name).iterdir()))] for name in ("one", "four")
    )
    assert len(one) == 6 and one[-1] < one[0]
    assert relative(four[:1], one[:1]) < FIRST_LOSS and relative(four, one) < ALL_LOSSES
    assert load_file(tmp_path / "exported" / "model.safetensors").keys() >= {"embed.weight", "layers.1.up.bias"}

"""Real DeepSpeed reads what we write: every weight and moment, and it trains on, also from ZeRO 3 in ZeRO 1.

    .venv/bin/python tools/campaign_deepspeed.py [--python ENV/bin/python] [--own] [--only KIND ...]

Makes checkpoints with DeepSpeed in an environment of its own (made here when no --python is given), imports each,
exports it in the universal form and in the own forms of ZeRO 1 (with a pipeline too), 2 and 3, and lets its engines
load that and train 4 steps; of the own forms without a word of a universal checkpoint. What they hold is compared bit
for bit with the save, and their losses with those of the run that never stopped. DeepSpeed's own conversion is loaded
beside it. Kinds with extras have frozen parameters, buffers and a tied head, and compute in bf16.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from measured import Results, add_options

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "deepspeed_program.py"
PACKAGES = ("torch", "numpy", "setuptools", "wheel", "packaging", "ninja", "psutil")
EXTRAS = "_extras"
KINDS = {
    "zero1_pp2_dp2": (4, "1", "2"),
    "zero2_dp2": (2, "2", "1"),
    "zero3_dp2": (2, "3", "1"),
    "zero1_dp2_extras": (2, "1", "1"),
    "zero1_pp2_dp2_extras": (4, "1", "2"),
    "zero2_dp2_extras": (2, "2", "1"),
    "zero3_dp2_extras": (2, "3", "1"),
}
"""Ranks, ZeRO stage and pipeline stages of the run that makes the checkpoint."""
TARGETS = ((1, 1), (1, 2), (3, 1), (3, 2))
"""(ZeRO stage, ranks) of the engines that load."""
OWN = ((1, 1, 1), (1, 2, 1), (1, 2, 2), (1, 4, 2), (2, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 1))
"""(ZeRO stage, ranks, pipeline stages) of the engines that load their stage's own form."""
FEWER = ((1, 2, 1), (1, 4, 2), (2, 2, 1), (3, 2, 1))
"""Of OWN, for a model with extras: its tied head has another name in a pipeline, so each loads its like alone."""
WITH_THEIRS = ("zero1_pp2_dp2", "zero3_dp2")
"""Whose checkpoints DeepSpeed's own conversion reads too, beside ours."""
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}
FORMS = {1: Form.ZERO_1, 2: Form.ZERO_2, 3: Form.ZERO_3}


def make_environment(folder: Path) -> Path:
    """The Python of an environment with DeepSpeed 0.19, made in the folder."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python, pins = folder / "bin" / "python", str(ROOT / "constraints.txt")
    environment = {**os.environ, "DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}
    install = [str(python), "-m", "pip", "install", "-q", "-c", pins]
    subprocess.run([*install, *PACKAGES], check=True, env=environment)
    subprocess.run([*install, "--no-build-isolation", "deepspeed==0.19.*"], check=True, env=environment)
    return python


def run_program(python: Path, num_ranks: int, *words: str, sizes: Mapping[str, str] | None = None) -> str | None:
    """None when the program went through, else the end of what it said."""
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", **(sizes or {})}
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    done = subprocess.run(
        [str(python), *launch, str(PROGRAM), *words], env=environment, capture_output=True, text=True, timeout=500
    )
    return None if done.returncode == 0 else (done.stdout + done.stderr)[-8000:]


def saved_values(save: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the model and its optimizer in a save of ours, whole."""
    shards = []
    for tensor in checkpoint.describe(save).tensors:
        if tensor.name.startswith(("model/", "optim/")):
            box = tuple((0, length) for length in tensor.shape)
            whole = torch.empty(tensor.shape, dtype=TYPES[tensor.dtype])
            shards.append(checkpoint.Shard(name=tensor.name, global_shape=tensor.shape, box=box, tensor=whole))
    checkpoint.load(save, shards)
    return {shard.name: shard.tensor for shard in shards}


def load_case(
    python: Path,
    folder: Path,
    stage: int,
    num_ranks: int,
    expected: Mapping[str, torch.Tensor],
    straight: Sequence[float],
    pp: int | None = None,
) -> Any:
    """What an engine found in the checkpoint below `folder`, and how it went on; of its own form with `pp` stages."""
    out = folder / f"held_{stage}_{num_ranks}"
    words = ("load", "step3_universal") if pp is None else ("own", "step3")
    more = [] if pp is None else [str(pp)]
    trouble = run_program(python, num_ranks, words[0], str(stage), str(folder), words[1], str(out), *more)
    if trouble is not None:
        errors = [line.strip() for line in trouble.splitlines() if "Error" in line and "error_file" not in line]
        return {"loads": False, "said": errors[0] if errors else trouble[-200:]}
    held: dict[str, torch.Tensor] = {}
    for rank in range(num_ranks):
        held.update(torch.load(out.with_suffix(f".{rank}.pt"), weights_only=True))
    unequal = [name for name in {*held, *expected} if name not in held or not torch.equal(held[name], expected[name])]
    said = json.loads(out.with_suffix(".json").read_text())
    goes_on = said["losses"] == list(straight)
    return {"loads": True, "num_tensors": len(held), "num_unequal": len(unequal), "losses_equal": goes_on, **said}


def theirs_case(
    python: Path, place: Path, made: Path, stage: int, num_ranks: int, expected: Any, straight: Sequence[float]
) -> Any:
    """The same with the conversion that DeepSpeed itself makes."""
    folder = place / "theirs"
    if not folder.exists():
        command = [str(python), "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(made / "step3")]
        command += ["--output_folder", str(folder / "step3_universal"), "--num_extract_workers", "1"]
        inject = [] if "zero3" in str(made) else ["--inject_missing_state"]
        environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
        subprocess.run(
            [*command, "--num_merge_workers", "1", *inject], check=True, env=environment, capture_output=True
        )
    return load_case(python, folder, stage, num_ranks, expected, straight)


def own_cases(python: Path, place: Path, saved: Path, expected: Any, straight: Sequence[float]) -> dict[str, Any]:
    """Each engine of OWN with the files of its own form that were written of a save; of FEWER with extras."""
    found = {}
    kind = saved.parent.name.removesuffix("_saves")
    is_pipeline = KINDS[kind][2] != "1"
    chosen = [each for each in FEWER if (each[2] > 1) == is_pipeline] if kind.endswith(EXTRAS) else OWN
    for stage, num_ranks, pp in chosen:
        folder = place / f"{kind}_own_{stage}_{num_ranks}_{pp}"
        form = FORMS[stage]
        checkpoint.export_checkpoint(
            saved, folder / "step3", form=form, foreign=Foreign(), num_ranks=num_ranks, stages=str(pp)
        )
        name = f"own form of ZeRO {stage} on {num_ranks}" + (f" in {pp} stages" if pp > 1 else "")
        found[name] = load_case(python, folder, stage, num_ranks, expected, straight, pp)
        print(kind, name, found[name], flush=True)
    return found


def cases_of(kind: str, python: Path, place: Path, *, is_own_only: bool) -> dict[str, Any]:
    """All that engines made of one kind's checkpoint, by the name of the case."""
    num_ranks, stage, pp = KINDS[kind]
    made = place / kind
    trouble = run_program(python, num_ranks, "make", stage, str(made), pp)
    assert trouble is None, trouble
    saved = checkpoint.import_checkpoint(made, place / f"{kind}_saves", foreign=Foreign()).written.path
    universal = place / f"{kind}_universal"
    checkpoint.export_checkpoint(saved, universal / "step3_universal", form=Form.UNIVERSAL, foreign=Foreign())
    expected = saved_values(saved)
    straight = json.loads((made / "straight.json").read_text())
    found = {"never stopped": straight, **own_cases(python, place, saved, expected, straight)}
    # DeepSpeed's pipelines load a universal checkpoint of a pipeline of theirs alone, and name a tied head otherwise.
    targets = () if is_own_only or (kind.endswith(EXTRAS) and pp != "1") else TARGETS
    for target, ranks in targets:
        name = f"into ZeRO {target} on {ranks}"
        found[name] = load_case(python, universal, target, ranks, expected, straight)
        print(kind, name, found[name], flush=True)
    for target, ranks in targets if kind in WITH_THEIRS else ():
        if ranks == 2:
            name = f"DeepSpeed's own conversion into ZeRO {target} on {ranks}"
            found[name] = theirs_case(python, place / kind, made, target, ranks, expected, straight)
            print(kind, name, found[name], flush=True)
    return found


def main() -> None:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, help="of an environment that has DeepSpeed")
    parser.add_argument("--own", action="store_true", help="only the own forms of ZeRO 1, 2 and 3")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="only these kinds")
    add_options(parser)
    asked = parser.parse_args()
    kept = Results(
        "deepspeed_own" if asked.own else "deepspeed",
        what="real DeepSpeed loads what we write and trains on, against the run that never stopped",
        measures=["src/emberward/checkpoint"],
        settings={"seed": 7},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    sizes = {}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        python = asked.python or make_environment(place / "env")
        for kind in asked.only:
            os.environ["PROGRAM_EXTRAS"] = "1" if kind.endswith(EXTRAS) else "0"
            cases = cases_of(kind, python, place, is_own_only=asked.own)
            kept.add(kind, {"cases": cases})
            sizes[kind] = len(cases) - 1
    kept.summarise({"num_cases_of_kind": sizes})


if __name__ == "__main__":
    main()

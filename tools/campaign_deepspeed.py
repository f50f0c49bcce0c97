"""Real DeepSpeed reads what we write: every weight and moment, and it trains on, also from ZeRO 3 in ZeRO 1.

    .venv/bin/python tools/campaign_deepspeed.py [--python ENV/bin/python] [--own]

Makes checkpoints with DeepSpeed in an environment of its own (made here when no --python is given), imports each,
exports it in the universal form and in the own forms of ZeRO 1 (with a pipeline too), 2 and 3, and lets its engines
load that and train 4 steps; of the own forms without a word of a universal checkpoint. What they hold is compared bit
for bit with the save, and their losses with those of the run that never stopped. DeepSpeed's own conversion is loaded
beside it.
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
KINDS = {"zero1_pp2_dp2": (4, "1", "2"), "zero2_dp2": (2, "2", "1"), "zero3_dp2": (2, "3", "1")}
TARGETS = ((1, 1), (1, 2), (3, 1), (3, 2))
"""(ZeRO stage, ranks) of the engines that load."""
OWN = ((1, 1, 1), (1, 2, 1), (1, 2, 2), (1, 4, 2), (2, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 1))
"""(ZeRO stage, ranks, pipeline stages) of the engines that load their stage's own form."""
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
    """Every float tensor of a save of ours, whole."""
    shards = []
    for tensor in checkpoint.describe(save).tensors:
        if tensor.name.startswith(("model/", "optim/")):
            box = tuple((0, length) for length in tensor.shape)
            whole = torch.empty(tensor.shape)
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
    """Each engine of OWN with the files of its own form that were written of a save."""
    found = {}
    for stage, num_ranks, pp in OWN:
        folder = place / f"{saved.parent.name}_own_{stage}_{num_ranks}_{pp}"
        form = FORMS[stage]
        checkpoint.export_checkpoint(
            saved, folder / "step3", form=form, foreign=Foreign(), num_ranks=num_ranks, stages=str(pp)
        )
        name = f"own form of ZeRO {stage} on {num_ranks}" + (f" in {pp} stages" if pp > 1 else "")
        found[name] = load_case(python, folder, stage, num_ranks, expected, straight, pp)
        print(saved.parent.name, name, found[name], flush=True)
    return found


def main() -> None:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, help="of an environment that has DeepSpeed")
    parser.add_argument("--own", action="store_true", help="only the own forms of ZeRO 1, 2 and 3")
    add_options(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        python = asked.python or make_environment(place / "env")
        results: dict[str, Any] = {}
        for kind, (num_ranks, stage, pp) in KINDS.items():
            made = place / kind
            trouble = run_program(python, num_ranks, "make", stage, str(made), pp)
            assert trouble is None, trouble
            saved = checkpoint.import_checkpoint(made, place / f"{kind}_saves", foreign=Foreign()).written.path
            universal = place / f"{kind}_universal"
            checkpoint.export_checkpoint(saved, universal / "step3_universal", form=Form.UNIVERSAL, foreign=Foreign())
            expected = saved_values(saved)
            straight = json.loads((made / "straight.json").read_text())
            results[kind] = {"never stopped": straight}
            results[kind].update(own_cases(python, place, saved, expected, straight))
            for target, ranks in () if asked.own else TARGETS:
                name = f"into ZeRO {target} on {ranks}"
                results[kind][name] = load_case(python, universal, target, ranks, expected, straight)
                print(kind, name, results[kind][name], flush=True)
            if kind != "zero2_dp2" and not asked.own:
                for target, ranks in ((1, 2), (3, 2)):
                    name = f"DeepSpeed's own conversion into ZeRO {target} on {ranks}"
                    results[kind][name] = theirs_case(python, place / kind, made, target, ranks, expected, straight)
                    print(kind, name, results[kind][name], flush=True)
    kept = Results(
        "deepspeed_own" if asked.own else "deepspeed",
        what="real DeepSpeed loads what we write and trains on, against the run that never stopped",
        measures=["src/emberward/checkpoint"],
        settings={"seed": 7},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    for kind, found in results.items():
        kept.add(kind, {"cases": found})
    kept.summarise({"num_cases_of_kind": {kind: len(found) - 1 for kind, found in results.items()}})


if __name__ == "__main__":
    main()

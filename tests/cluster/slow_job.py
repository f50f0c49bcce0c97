"""A job on namespace hosts with links of one speed, one of which turns slow or loses packets, until it is stopped."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from ranks.runs import curve, metrics

from cluster.hosts import Hosts
from cluster.jobs import only_run, runs_of
from cluster.machines import Machines

NUM_TRAINING = 3
STEPS = 20_000
"""More than are made."""
RATE, HALF_RATE = "200mbit", "100mbit"
LOST_PERMILLE = 10
PROCESSOR_PERCENT, SLOW_PERCENT = 50, 20
END_LIMIT_S = 300.0
SLOW_CODES = frozenset({"H143", "H144"})

_RECIPE = """
name: cluster
steps: {steps}
sample_tokens: 0
timeout_s: 100
model: {{num_layers: 1, hidden: {hidden}, num_heads: 4, seq_len: 64}}
layout: {{dp: 3, tp: 1, pp: 1}}
batch: {{global_batch: 12, micro_batch: 2}}
optim: {{lr: 5e-3, warmup_samples: 0}}
evaluation: {{interval: {steps}, samples: 12}}
save: {{interval: {steps}, keep: 4}}
data: {{train: "{text}", held_out: 0.2, cache: "{cache}"}}
"""


class Fault(StrEnum):
    """What befalls a host."""

    HALF = "half"
    """It sends at half the speed of the others."""
    LOSS = "loss"
    """One in a hundred of the packets that it sends is lost in the switch."""
    PROCESSOR = "processor"
    """All that runs on it has SLOW_PERCENT of one processor, by its control group; the others PROCESSOR_PERCENT."""
    NONE = "none"
    BRIEF = "brief"
    """A look-alike: its link is at half its speed, and its processor slow, for a few seconds."""


class SlowJob:
    """Three hosts train and `num_spares` stand by. `close` it."""

    def __init__(self, folder: Path, text: Path, *, hidden: int, num_spares: int, replace_slow_s: int = 2) -> None:
        self.machines = Machines(Hosts(NUM_TRAINING + num_spares), folder)
        hosts = self.machines.hosts
        hosts.open()
        hosts.send_single_packets()
        for index in range(len(hosts.names)):
            hosts.slow_down(index, RATE)
        self.recipe = self._write_recipe(folder / "job", text, hidden)
        self._straight = self._write_recipe(folder / "straight", text, hidden)
        more = ("--nnodes", str(NUM_TRAINING), "--replace-slow", str(replace_slow_s))
        self.process = self.machines.train(self.recipe, len(hosts.names), *more)

    @staticmethod
    def _write_recipe(folder: Path, text: Path, hidden: int) -> Path:
        folder.mkdir(parents=True)
        path = folder / "recipe.yaml"
        path.write_text(_RECIPE.format(steps=STEPS, hidden=hidden, text=text, cache=text.parent / "cache"))
        return path

    def strike(self, index: int, fault: Fault) -> None:
        """The fault befalls the host."""
        hosts = self.machines.hosts
        match fault:
            case Fault.HALF:
                hosts.slow_down(index, HALF_RATE)
            case Fault.LOSS:
                hosts.drop(index, LOST_PERMILLE)
            case Fault.PROCESSOR:
                for number, name in enumerate(hosts.names[:NUM_TRAINING]):
                    self.machines.set_processor(name, SLOW_PERCENT if number == index else PROCESSOR_PERCENT)
            case Fault.BRIEF:
                hosts.slow_down(index, HALF_RATE)
                self.machines.set_processor(hosts.names[index], PROCESSOR_PERCENT)
            case Fault.NONE:
                pass

    def heal(self, index: int) -> None:
        """Undoes HALF and PROCESSOR."""
        self.machines.hosts.slow_down(index, RATE)
        self.machines.quicken_processor(self.machines.hosts.names[index])

    def said(self) -> str:
        """What the launcher wrote."""
        return (self.recipe.parent / "train.log").read_text(errors="replace")

    def num_steps(self) -> int:
        """Steps so far."""
        runs = runs_of(self.recipe)
        return len(metrics(runs[-1])) if runs else 0

    def slow(self) -> list[dict[str, Any]]:
        """What was found about slow hosts and links, each once."""
        runs = runs_of(self.recipe)
        path = runs[-1] / "findings.jsonl" if runs else None
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        found = [each for each in map(json.loads, lines) if each["code"] in SLOW_CODES]
        return [each for number, each in enumerate(found) if each not in found[:number]]

    def ends(self) -> list[dict[str, Any]]:
        """The ends of attempts."""
        lines = map(json.loads, (only_run(self.recipe) / "attempts.jsonl").read_text().splitlines())
        return [line for line in lines if line["event"] == "end"]

    def stop(self) -> int:
        """The exit code, after a save that was asked for."""
        self.process.terminate()
        return self.process.wait(END_LIMIT_S)

    def curves(self, wait: Callable[[Callable[[], object], str, float], None]) -> tuple[list[Any], list[Any]]:
        """The steps that were made, and the same steps of three ranks of one machine that nobody interrupts."""
        found = curve(only_run(self.recipe))
        words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(NUM_TRAINING)]
        more = ["-m", "emberward.rank", "--runs", str(self._straight.parent / "runs"), str(self._straight)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        started = subprocess.Popen(
            [*words, *more], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

        def is_there() -> bool:
            runs = runs_of(self._straight)
            return started.poll() is not None or bool(runs and len(metrics(runs[-1])) >= len(found))

        try:
            wait(is_there, f"{len(found)} steps of one machine", END_LIMIT_S)
        finally:
            started.terminate()
            started.wait(END_LIMIT_S)
        return found, curve(only_run(self._straight))[: len(found)]

    def close(self) -> None:
        """Ends what still runs, and takes the hosts away."""
        if self.process.poll() is None:
            self.stop()
        self.machines.close()

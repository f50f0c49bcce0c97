"""The dry run of one rank of a recipe: the real engine and trainer on fake tensors and a group without peers.

[Note: declared values]
Fake tensors hold no values, so every value on which the host decides is declared here, by the name under which the
engine reads it. Each is a decision that all ranks share because it is the result of a collective over the world.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from emberward import checkpoint
from emberward.engine import build_world
from emberward.events import Event
from emberward.rank._rehearsal import PhaseMarker, Script, Stage, play
from emberward.rank._signals import StopRequest
from emberward.recipe import mesh_of
from emberward.report import RunFolder
from emberward.sources import SiteFinder, Tape, Transport
from emberward.sources.fake_world import fake_tensors, fake_world
from emberward.sources.recorder import Recorder

PACKAGE = Path(__file__).parents[1]

ASSUMPTIONS = (
    "losses and gradients are finite, and each step has tokens",
    "each save is written well on every rank",
    "nobody asks to stop, and in the last part one rank does",
    "the sampled tokens are any: they change no call",
)
"""What `DeclaredValues` declares, in words for a verdict."""


@dataclass(slots=True)
class DeclaredValues:
    """Answers the engine's reads. See [Note: declared values]."""

    num_stops: float = 0.0

    def read(self, name: str, tensor: Tensor) -> list[float]:
        """The declared values behind `tensor`, as many as it has. Raises KeyError for a name that is not declared."""
        declared = {
            "own_sums": [1.0, 1.0],
            "own_gradients": [1.0, 1.0],
            "step_totals": [1.0, 1.0, 1.0, 0.0, 0.0, self.num_stops],
            "eval_totals": [1.0, 1.0],
            "sampled_token": [0.0],
            "vote": [0.0],
        }[name]
        assert len(declared) == tensor.numel(), f"{name} has {tensor.numel()} values, {len(declared)} are declared"
        return declared


def site_finder() -> SiteFinder:
    """Finds lines of the engine: under a recipe, Emberward's own code is what the user runs."""
    return SiteFinder(roots=(PACKAGE.parent,))


def dry_run(script: Script, rank: int, *, transport: Transport) -> tuple[Event, ...]:
    """What `rank` does in the rehearsal `script`. Needs no peers and no accelerator; writes to a scratch folder."""
    mesh = mesh_of(script.recipe.layout)
    tape = Tape(rank, find_site=site_finder().here, transport=transport)
    values = DeclaredValues()
    marker = PhaseMarker(tape.mark)

    def before_part(name: str, stop: StopRequest) -> None:
        del stop
        values.num_stops = 1.0 if name == "asked to stop" else 0.0

    with (
        tempfile.TemporaryDirectory(prefix="emberward-check-") as scratch,
        fake_world(rank, mesh.size),
        Recorder(tape).recording(),
    ):
        world = build_world(mesh, device=torch.device("cpu"), timeout_s=script.recipe.timeout_s)
        stage = Stage(
            world=replace(world, read=values.read, mark=marker.inner),
            folder=RunFolder(path=Path(scratch)),
            enter=marker.enter,
            save=rehearse_save,
            before_part=before_part,
        )
        with fake_tensors():
            play(script, stage)
    return tape.events()


def rehearse_save(shelf: Path, *, agree: Callable[[bool], bool], **rest: object) -> None:
    """Takes what `checkpoint.save` takes and makes its agreements; writes nothing."""
    del shelf, rest
    checkpoint.rehearse(agree=agree)

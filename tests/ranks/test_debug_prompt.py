"""The prompt of the debug operation `stop`, in a terminal: what is typed there, and how the rank goes on or ends."""

import os
import select
import time

import pytest

from ranks.runs import SMALL, warm_server, write_text

LIMIT_S = 120.0


class Terminal:
    """A rank alone in a pseudo-terminal, as `python -m emberward.rank RECIPE` starts it by hand."""

    def __init__(self, place, recipe: str, *overrides: str) -> None:
        self._master, inside = os.openpty()
        with os.fdopen(inside, "r+b", buffering=0) as terminal:
            self.rank = warm_server().start(
                ["emberward.rank", recipe, "layout.dp=1", "layout.tp=1", "layout.pp=1", *overrides],
                module="emberward.rank",
                cwd=place,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                env={"TERM": "dumb"},
            )
        self.said = ""

    def expect(self, text: str) -> None:
        """Reads until `text` has been said; what came before it is forgotten."""
        end = time.monotonic() + LIMIT_S
        while text not in self.said:
            left = end - time.monotonic()
            assert left > 0 and select.select([self._master], [], [], left)[0], f"waited for {text!r}: {self.said}"
            try:
                self.said += os.read(self._master, 65536).decode(errors="replace")
            except OSError as error:  # the other end is closed: the rank has ended
                raise AssertionError(f"ended before {text!r}: {self.said}") from error
        self.said = self.said.split(text, 1)[1]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        os.close(self._master)


@pytest.fixture
def terminal(tmp_path):
    write_text(tmp_path / "text")
    (tmp_path / "runs").mkdir()
    stop = ("debug=stop blocks.0.mlp step=0 mb=0", "steps=2", "data.train=text", "data.held_out=0.2")
    made = Terminal(tmp_path, "bloom_tiny", *SMALL, *stop, "batch.micro_batch=4")
    yield made
    made.rank.kill()
    made.close()


@pytest.mark.parametrize(
    ("recipe", "module", "shape"),
    [
        ("roberta_tiny", "roberta.encoder.layer.0", (4, 64, 128)),
        ("swin_tiny", "swin.encoder.layers.0.blocks.0", (4, 64, 24)),
    ],
)
def test_a_rank_of_another_family_stops_at_a_prompt_too(tmp_path, recipe, module, shape):
    write_text(tmp_path / "text")
    (tmp_path / "runs").mkdir()
    data = ("data.train=text", "data.held_out=0.2") if recipe == "roberta_tiny" else ()
    sizes = ("steps=1", "batch.global_batch=8", "batch.micro_batch=4", "optim.warmup_samples=0", "sample_tokens=0")
    terminal = Terminal(tmp_path, recipe, *sizes, *data, f"debug=stop {module} step=0 mb=1")
    try:
        terminal.expect(f"stopped at {module} output  step 1 micro-batch 1")
        terminal.expect(">>> ")
        terminal.type("tuple(tensor.shape), bool(tensor.isfinite().all())\n")
        terminal.expect(f"({shape}, True)")
        # An end of input that is typed before the prompt is there is lost.
        terminal.expect(">>> ")
        terminal.type("\x04")
        terminal.expect("step 1/1")
        assert terminal.rank.wait(LIMIT_S) == 0
    finally:
        terminal.rank.kill()
        terminal.close()


def test_a_rank_stops_at_a_prompt_is_looked_into_and_goes_on(terminal):
    terminal.expect("stopped at blocks.0.mlp output  step 1 micro-batch 0")
    terminal.expect(">>> ")
    terminal.type("(name, step, tuple(tensor.shape), bool(tensor.isfinite().all()))\n")
    terminal.expect("('blocks.0.mlp', 0, (4, 32, 32), True)")
    terminal.type("missing\n")
    terminal.expect("NameError: name 'missing' is not defined")
    terminal.expect(">>> ")
    terminal.type("\x04")
    terminal.expect("step 2/2")
    assert terminal.rank.wait(LIMIT_S) == 0


def test_exit_at_the_prompt_ends_the_rank(terminal):
    terminal.expect(">>> ")
    terminal.type("exit()\n")
    assert terminal.rank.wait(LIMIT_S) != 0

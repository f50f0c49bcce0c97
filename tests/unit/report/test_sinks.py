"""Where metrics go: files read back by the packages that own their formats, a scrape over HTTP."""

import errno
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import urllib.request
from pathlib import Path

import pytest

from emberward.findings import Certainty, ConfigError, Severity
from emberward.report import JsonlSink, Sinks, open_sinks, read_lines, require_sinks

METRICS = {"loss": 2.5, "grad_norm": None, "lr": 1e-4, "consumed_samples": 64, "phases": {"data_s": 0.25}, "note": "x"}


def steps_of(path) -> list[int]:
    return [line["step"] for line in read_lines(path)]


def test_a_line_a_step(tmp_path):
    path = tmp_path / "new" / "metrics.jsonl"
    sink = JsonlSink(path)
    sink.log(1, METRICS)
    assert list(read_lines(path)) == [{"step": 1, **METRICS}]
    sink.log(2, {"step": 99, "loss": 2.0})
    sink.close()
    assert list(read_lines(path))[1] == {"step": 2, "loss": 2.0}


def test_a_resumed_run_drops_the_steps_after_its_save(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": n}) + "\n" for n in range(1, 9)) + '{"step": 9, "lo')
    sink = JsonlSink(path, keep_through=6)
    assert steps_of(path) == [1, 2, 3, 4, 5, 6]
    sink.log(7, {"loss": 1.0})
    sink.close()
    assert steps_of(path) == [1, 2, 3, 4, 5, 6, 7]
    assert [each.name for each in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_file_that_a_shared_file_system_has_lost_is_opened_again(tmp_path, monkeypatch):
    path, read, lost = tmp_path / "metrics.jsonl", Path.read_bytes, [errno.ESTALE] * 2
    path.write_text('{"step": 1}\n{"step": 2}\n')

    def read_bytes(it):
        if lost:
            raise OSError(lost.pop(), "Stale file handle")
        return read(it)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    JsonlSink(path, keep_through=1).close()
    assert (steps_of(path), lost) == ([1], [])


@pytest.mark.parametrize(("keep", "kept"), [(None, [1, 2]), (0, []), (1, [1]), (5, [1, 2])])
def test_what_is_kept(tmp_path, keep, kept):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n')
    JsonlSink(path, keep_through=keep).close()
    assert steps_of(path) == kept


def test_a_whole_file_is_not_rewritten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n')
    before = path.stat().st_ino
    JsonlSink(path, keep_through=1).close()
    assert path.stat().st_ino == before


def test_a_full_disk_under_the_metrics_is_not_hidden(tmp_path):
    first = JsonlSink(tmp_path / "metrics.jsonl")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, first._fd)
    with pytest.raises(OSError, match="No space left"):
        Sinks(first, {}).log(1, METRICS)
    os.close(full)
    os.close(first._fd)


def test_tensorboard_reads_our_event_file(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with open_sinks(metrics=tmp_path / "metrics.jsonl", tensorboard=tmp_path / "tb") as sinks:
        for step in (1, 2, 3):
            sinks.log(step, {**METRICS, "loss": 3.0 - step / 2})
    assert sinks.problems == []
    board = EventAccumulator(str(tmp_path / "tb")).Reload()
    assert sorted(board.Tags()["scalars"]) == ["consumed_samples", "loss", "lr", "phases/data_s"]
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(1, 2.5), (2, 2.0), (3, 1.5)]
    assert steps_of(tmp_path / "metrics.jsonl") == [1, 2, 3]


def test_prometheus_is_scraped_on_this_machine(tmp_path):
    with open_sinks(metrics=tmp_path / "metrics.jsonl", prometheus_port=0) as sinks:
        sinks.log(7, METRICS)
        sinks.log(8, {**METRICS, "loss": 2.25})
        port = sinks._others["prometheus"].port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    assert sinks.problems == []
    gauges = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    assert gauges == {
        "emberward_loss": "2.25",
        "emberward_lr": "0.0001",
        "emberward_consumed_samples": "64.0",
        "emberward_phases_data_s": "0.25",
        "emberward_step": "8.0",
    }
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


class Failing:
    """A sink of the user's that breaks at step 2."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def log(self, step, metrics):
        self.steps.append(step)
        if step == 2:
            raise ConnectionError("no route")

    def close(self):
        raise AssertionError("a sink that is off is not closed")


def test_a_sink_that_fails_is_off_and_is_said_once(tmp_path):
    failing = Failing()
    with Sinks(JsonlSink(tmp_path / "metrics.jsonl"), {"board": lambda: failing}) as sinks:
        for step in (1, 2, 3):
            sinks.log(step, METRICS)
    assert failing.steps == [1, 2]
    assert steps_of(tmp_path / "metrics.jsonl") == [1, 2, 3]
    (problem,) = sinks.problems
    assert (problem.code, problem.severity, problem.certainty) == ("R102", Severity.WARNING, Certainty.OBSERVED)
    assert problem.message == "the board sink failed and is off for the rest of this attempt"
    assert problem.evidence == ("ConnectionError: no route",)


def test_a_sink_that_cannot_open_does_not_stop_a_run(tmp_path):
    (tmp_path / "tb").write_text("a file in the way")
    with open_sinks(metrics=tmp_path / "metrics.jsonl", tensorboard=tmp_path / "tb") as sinks:
        sinks.log(1, METRICS)
    assert [problem.code for problem in sinks.problems] == ["R102"]
    assert steps_of(tmp_path / "metrics.jsonl") == [1]


@pytest.mark.parametrize(
    ("asked", "key", "package", "extra"),
    [
        ({"tensorboard": True}, "log.tensorboard", "tensorboard", "tensorboard"),
        ({"wandb": "project"}, "log.wandb", "wandb", "wandb"),
        ({"prometheus_port": 0}, "log.prometheus_port", "prometheus_client", "prometheus"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(asked, key, package, extra):
    """In a child whose import system has no such package: the real look-up, on a machine that lacks it."""
    script = f"""
        import sys
        class Without:
            def __init__(self, inner):
                self._inner = inner
            def find_spec(self, name, path=None, target=None):
                return None if name == {package!r} else self._inner.find_spec(name, path, target)
        sys.meta_path[:] = [Without(each) for each in sys.meta_path]
        from emberward.findings import ConfigError
        from emberward.report import require_sinks
        asked = {{"tensorboard": False, "wandb": None, "prometheus_port": None, **{asked!r}}}
        try:
            require_sinks(**asked)
        except ConfigError as error:
            sys.stdout.write(error.text())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        f"C110 {key} needs a package that is not installed",
        f"  where     {key}",
        f"  expected  the package {package}",
        "  found     no such package",
        f"  next      pip install 'emberward[{extra}]', or leave {key} out",
    ]


def test_what_is_not_asked_for_is_not_needed():
    require_sinks(tensorboard=False, wandb=None, prometheus_port=None)


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed here")
def test_wandb_without_its_package_is_refused_before_a_file_is_made(tmp_path):
    with pytest.raises(ConfigError, match=r"log\.wandb needs a package"):
        open_sinks(metrics=tmp_path / "metrics.jsonl", wandb="project")
    assert os.listdir(tmp_path) == []  # noqa: PTH208

"""Where the metrics of a step go: ``metrics.jsonl`` always; TensorBoard, W&B and Prometheus when asked for.

The packages of the optional sinks are imported when such a sink is opened: none of them is needed to train.
"""

import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from emberward.files import anew
from emberward.findings import Cause, Certainty, ConfigError, Finding, Kind, Severity
from emberward.report._read import parse_line

Metrics = Mapping[str, Any]


class MetricsSink(Protocol):
    """Takes the metrics of one step after another."""

    def log(self, step: int, metrics: Metrics) -> None:
        """Takes the metrics of `step`. Values are numbers, None (not measured), text or nested objects."""

    def close(self) -> None:
        """Flushes and releases what the sink holds. Blocks until that is done."""


class JsonlSink:
    """Appends one whole line a step and flushes it to the operating system.

    A line that a crash cut is removed when the file is opened, and so are the lines after step `keep_through`: a run
    that resumes from a save does those steps again.
    """

    def __init__(self, path: Path, *, keep_through: int | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _mend(path, keep_through)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def log(self, step: int, metrics: Metrics) -> None:
        """Appends ``{"step": step, ...metrics}`` as one line. Raises OSError when it cannot be written."""
        line = json.dumps({"step": step, **{key: value for key, value in metrics.items() if key != "step"}})
        data = line.encode() + b"\n"
        written = os.write(self._fd, data)
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def close(self) -> None:
        """Syncs the file to disk and closes it."""
        os.fsync(self._fd)
        os.close(self._fd)


def _mend(path: Path, keep_through: int | None) -> None:
    """Drops cut lines and, when `keep_through` is given, the lines of later steps; rewrites only what changes."""
    if not path.exists():
        return
    kept, changed = [], False
    for line in BytesIO(anew(path.read_bytes)):
        value = parse_line(line) if line.endswith(b"\n") else None
        step = None if value is None else value.get("step")
        late = keep_through is not None and isinstance(step, int) and step > keep_through
        if value is None or late:
            changed = True
        else:
            kept.append(line)
    if changed:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            file.writelines(kept)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def _numbers(metrics: Metrics) -> dict[str, float]:
    """The measured numbers among `metrics`; nested objects give ``outer/inner``."""
    found: dict[str, float] = {}
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            found.update({f"{key}/{inner}": number for inner, number in _numbers(value).items()})
        elif isinstance(value, int | float):
            found[key] = float(value)
    return found


class TensorBoardSink:
    """Writes scalars to an event file in `folder`, through the ``tensorboard`` package alone."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder.mkdir(parents=True, exist_ok=True)
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))
        self._clock = clock

    def log(self, step: int, metrics: Metrics) -> None:
        """Adds one scalar for each measured number, at `step` and the clock's Unix time."""
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in _numbers(metrics).items()]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(step=step, wall_time=self._clock(), summary=summary))

    def close(self) -> None:
        """Writes what is queued to disk."""
        self._writer.close()


class WandbSink:
    """Logs to a Weights & Biases project; the package's own settings (offline mode, key) hold."""

    def __init__(self, project: str, *, folder: Path, name: str) -> None:
        import wandb

        self._run = wandb.init(project=project, name=name, dir=str(folder), resume="allow", id=name)

    def log(self, step: int, metrics: Metrics) -> None:
        """Queues the measured numbers of `step`."""
        self._run.log(_numbers(metrics), step=step)

    def close(self) -> None:
        """Waits until the package has sent or stored what is queued."""
        self._run.finish()


class PrometheusSink:
    """Serves the newest value of each number as a gauge ``emberward_<key>`` on 127.0.0.1. Port 0 takes a free one."""

    def __init__(self, port: int) -> None:
        from prometheus_client import CollectorRegistry, Gauge, start_http_server

        self._gauge = Gauge
        self._registry = CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=self._registry)

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._server.server_port)

    def log(self, step: int, metrics: Metrics) -> None:
        """Sets the gauges, ``emberward_step`` among them."""
        for key, value in {**_numbers(metrics), "step": float(step)}.items():
            name = "emberward_" + "".join(c if c.isalnum() else "_" for c in key)
            if name not in self._gauges:
                self._gauges[name] = self._gauge(name, f"{key} of the newest step", registry=self._registry)
            self._gauges[name].set(value)

    def close(self) -> None:
        """Stops serving; blocks until the server's thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def require_sinks(*, tensorboard: bool, wandb: str | None, prometheus_port: int | None) -> None:
    """Raises ConfigError C110 for the first sink that is asked for and whose package is missing. Imports none."""
    asked = (
        ("log.tensorboard", "tensorboard", tensorboard),
        ("log.wandb", "wandb", wandb is not None),
        ("log.prometheus_port", "prometheus_client", prometheus_port is not None),
    )
    for key, package, wanted in asked:
        if wanted and importlib.util.find_spec(package) is None:
            extra = package.split("_")[0]
            raise ConfigError(
                f"{key} needs a package that is not installed",
                code="C110",
                where=key,
                expected=f"the package {package}",
                found="no such package",
                next=f"pip install 'emberward[{extra}]', or leave {key} out",
            )


class Sinks:
    """All sinks of a run behind one `log`. Use it as a context manager.

    ``metrics.jsonl`` must be written: its errors pass. Another sink that fails, be it while it opens, is left out from
    then on, and `problems` keeps a warning for it: a chart is never worth a run.
    """

    def __init__(self, first: JsonlSink, others: Mapping[str, Callable[[], MetricsSink]]) -> None:
        self._first = first
        self._others: dict[str, MetricsSink] = {}
        self.problems: list[Finding] = []
        for name, open_sink in others.items():
            with self._watched(name):
                self._others[name] = open_sink()

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - foreign code of three packages; any failure has the same end
            self._others.pop(name, None)
            self.problems.append(_failed(name, error))

    def log(self, step: int, metrics: Metrics) -> None:
        """Gives the metrics of `step` to every sink that still works."""
        self._first.log(step, metrics)
        for name, sink in list(self._others.items()):
            with self._watched(name):
                sink.log(step, metrics)

    def close(self) -> None:
        """Closes every sink, also when one of them fails to."""
        for name, sink in list(self._others.items()):
            with self._watched(name):
                sink.close()
        self._first.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _failed(name: str, error: Exception) -> Finding:
    return Finding(
        code="R102",
        severity=Severity.WARNING,
        kind=Kind.RESOURCE,
        cause=Cause.EXCEPTION,
        certainty=Certainty.OBSERVED,
        message=f"the {name} sink failed and is off for the rest of this attempt",
        evidence=(f"{type(error).__name__}: {error}",),
        next="metrics.jsonl has every step; fix the sink before the next start",
    )


def open_sinks(
    *,
    metrics: Path,
    keep_through: int | None = None,
    tensorboard: Path | None = None,
    wandb: str | None = None,
    wandb_name: str = "run",
    prometheus_port: int | None = None,
) -> Sinks:
    """The sinks of a run, opened by rank 0 alone. Raises ConfigError C110 when a package is missing.

    `metrics` is ``metrics.jsonl``, `keep_through` the step of the save that is resumed, `tensorboard` the folder for
    event files, `wandb` a project. Blocks while W&B connects.
    """
    require_sinks(tensorboard=tensorboard is not None, wandb=wandb, prometheus_port=prometheus_port)
    others: dict[str, Callable[[], MetricsSink]] = {}
    if tensorboard is not None:
        others["tensorboard"] = partial(TensorBoardSink, tensorboard)
    if wandb is not None:
        others["wandb"] = partial(WandbSink, wandb, folder=metrics.parent, name=wandb_name)
    if prometheus_port is not None:
        others["prometheus"] = partial(PrometheusSink, prometheus_port)
    return Sinks(JsonlSink(metrics, keep_through=keep_through), others)

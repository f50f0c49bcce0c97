"""The order of a lane's stream with others, on streams that only write down what they are told. None is a GPU's."""

import contextlib
from dataclasses import dataclass

import pytest
import torch

from emberward import lanes
from emberward.lanes._lane import Lane
from emberward.lanes._streams import Door, Streams


class Event:
    def __init__(self, stream: "Stream", number: int) -> None:
        self.stream = stream
        self.number = number

    def query(self) -> bool:
        return self.stream.num_passed >= self.number

    def synchronize(self) -> None:
        self.stream.num_passed = max(self.stream.num_passed, self.number)


class Stream:
    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told
        self.num_events = 0
        self.num_passed = 0

    def wait_event(self, event: Event) -> None:
        self.told.append(f"{self.name} waits for {event.stream.name}.{event.number}")

    def record_event(self) -> Event:
        self.num_events += 1
        return Event(self, self.num_events)


class Device:
    """Two streams: the main one and the lane's."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.main = Stream("main", self.told)
        self.now = self.main
        self.streams = Streams(
            Door(new_stream=lambda: Stream("lane", self.told), current=lambda: self.now, entered=self._entered)
        )

    @contextlib.contextmanager
    def _entered(self, stream):
        before, self.now = self.now, stream
        try:
            yield
        finally:
            self.now = before


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def lane(device):
    made = Lane("gpu", device=torch.device("cpu"), streams=device.streams)
    yield made
    assert made.close(20.0)


def test_a_task_waits_for_its_submitter_and_its_user_for_the_task(device, lane):
    result = lane.submit(int)
    assert result.exception(20) is None
    assert device.told == ["lane waits for main.1"]
    result.result()
    result.result()
    assert device.told == ["lane waits for main.1", "main waits for lane.1"]


def test_the_lane_s_own_next_task_needs_no_wait_for_its_result(device, lane):
    first = lane.submit(int)
    assert lane.submit(lambda value: value, first).exception(20) is None
    assert "lane waits for lane.1" not in device.told


def test_arguments_are_kept_until_the_device_has_passed_the_task(device):
    streams, tensor = device.streams, torch.ones(2)
    events = streams.handed([tensor])
    with streams.task(events):
        pass
    assert len(events.kept) == 1
    with streams.task(streams.handed([])):
        pass
    assert len(events.kept) == 1, "the device has not passed it"
    streams.drain()
    assert events.kept == []


class OnDevice(torch.Tensor):
    """Stands for a tensor of a GPU; keeps the streams that were recorded."""

    is_cuda = True
    users: list

    def record_stream(self, stream):
        self.users.append(stream.name)


@dataclass(frozen=True)
class Held:
    inputs: OnDevice
    name: str = "held"


def test_the_tensors_of_a_result_are_not_reused_while_another_stream_reads_them(device, lane):
    tensor = torch.zeros(2).as_subclass(OnDevice)
    tensor.users = []
    lane.submit(lambda: [{"first": Held(tensor)}]).result()
    assert tensor.users == ["main"]


def test_a_block_orders_the_streams_at_both_ends(device, lane):
    with lane:
        assert device.now is device.streams.stream
    assert device.now is device.main
    assert device.told == ["lane waits for main.1", "main waits for lane.1"]


def test_a_tensor_in_host_memory_needs_no_note_of_its_production():
    tensor = torch.ones(2)
    assert lanes.produced(tensor) is tensor

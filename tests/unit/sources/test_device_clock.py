"""Times of a device by CUDA's events, against a stand-in with torch's signatures; no GPU is asked."""

import inspect

import pytest
import torch

from emberward.sources._device_clock import ANCHOR_S, CudaClock, clock_of, register_clock

SECOND = 1_000_000_000


class Device:
    """A GPU whose streams do what the test says: each has the time at which it comes to what is recorded next."""

    def __init__(self):
        self.now_ns = 5 * SECOND
        self.busy_until_ns = 0
        self.is_capturing = False
        self.made = 0
        self.offset_ns = 123 * SECOND
        """The device counts from another moment than the host."""
        fake = self

        class Event:
            def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
                assert enable_timing, "elapsed_time needs it"
                fake.made += 1
                return super().__new__(cls)

            def record(self, stream=None):
                assert not fake.is_capturing
                own = stream is not None
                self.at_ns = (fake.now_ns if own else max(fake.now_ns, fake.busy_until_ns)) + fake.offset_ns

            def query(self):
                assert not fake.is_capturing, "cudaEventQuery breaks the capture"
                return self.at_ns <= fake.now_ns + fake.offset_ns

            def synchronize(self):
                assert self.query(), "a clock must not wait for work"
                fake.now_ns += 20_000

            def elapsed_time(self, end_event):
                assert self.query() and end_event.query()
                return float(torch.tensor((end_event.at_ns - self.at_ns) / 1e6, dtype=torch.float32))

        class Stream:
            def __new__(cls, device=None, priority=0, **kwargs):
                return super().__new__(cls)

        self.Event, self.Stream = Event, Stream

    def is_current_stream_capturing(self):
        return self.is_capturing

    def current_device(self):
        return 0


@pytest.mark.parametrize("name", ["__new__", "record", "query", "synchronize", "elapsed_time"])
def test_the_stand_in_has_the_signatures_of_torch(name):
    def parameters(owner):
        return [(p.name, p.default) for p in inspect.signature(getattr(owner, name)).parameters.values()]

    assert parameters(Device().Event) == parameters(torch.cuda.Event)
    if name == "__new__":
        assert parameters(Device().Stream) == parameters(torch.cuda.Stream)


@pytest.mark.parametrize("name", ["is_current_stream_capturing", "current_device"])
def test_the_stand_in_has_the_functions_of_torch(name):
    assert [*inspect.signature(getattr(Device(), name)).parameters] == [
        *inspect.signature(getattr(torch.cuda, name)).parameters
    ]


def test_a_mark_has_the_time_at_which_the_device_comes_to_it():
    device = Device()
    clock = CudaClock(device, now_ns=lambda: device.now_ns)
    device.busy_until_ns = device.now_ns + SECOND
    mark = clock.mark()
    assert clock.at_ns(mark) is None, "the device computes"
    device.now_ns += 2 * SECOND
    # 10 us: half of the 20 us that the anchor took.
    assert clock.at_ns(mark) == pytest.approx(device.busy_until_ns, abs=10_000 + 1_000)


def test_times_stay_within_the_bound_after_an_hour():
    device = Device()
    clock = CudaClock(device, now_ns=lambda: device.now_ns)
    clock.mark()
    device.now_ns += 3600 * SECOND
    device.offset_ns += 36_000_000  # the device's clock is 10 parts in a million faster
    mark = clock.mark()
    at_ns = device.now_ns
    device.now_ns += SECOND
    assert clock.at_ns(mark) == pytest.approx(at_ns, abs=20_000)
    device.now_ns += int(ANCHOR_S * SECOND) - 2 * SECOND
    late = clock.mark()
    at_ns = device.now_ns
    device.now_ns += 1
    assert clock.at_ns(late) == pytest.approx(at_ns, abs=20_000)


def test_nothing_is_recorded_or_asked_while_a_graph_is_captured():
    device = Device()
    clock = CudaClock(device, now_ns=lambda: device.now_ns)
    mark = clock.mark()
    device.is_capturing = True
    assert clock.mark() is None
    assert clock.at_ns(mark) is None
    device.is_capturing = False
    device.now_ns += 1
    assert clock.at_ns(mark) is not None


def test_events_are_used_again():
    device = Device()
    clock = CudaClock(device, now_ns=lambda: device.now_ns)
    for _ in range(100):
        clock.free(clock.mark())
    assert device.made == 2, "the anchor's and one"


def test_the_backend_of_a_group_says_whose_clock_it_has():
    assert isinstance(clock_of(("nccl",)), CudaClock)
    assert isinstance(clock_of(("gloo", "nccl")), CudaClock)
    assert clock_of(("ucc",)) is None
    register_clock("own", lambda: CudaClock(Device()))
    assert isinstance(clock_of(("own",)), CudaClock)

"""Runs a compiled trace to its fixpoint: counters and work lists, each event touched a bounded number of times.

Why one run decides: [Note: call numbers]. Siegel and Avrunin 2005 ("Modeling wildcard-free MPI programs for
verification", PPoPP): without wildcard receives, freedom from deadlock under zero buffering carries over to every
buffer size; the converse needs the buffer model below.
"""

from collections.abc import Callable
from dataclasses import dataclass

from emberward.match._table import Step, Table
from emberward.match._verdict import SendSemantics

ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp64": 8,
}


@dataclass(frozen=True, slots=True)
class Run:
    """How far a table ran: per event id, whether it started and completed; the completed ones in their order."""

    started: bytearray
    done: bytearray
    order: list[int]

    @property
    def finished(self) -> bool:
        """Every event completed."""
        return len(self.order) == len(self.done)


def sent_bytes(numel: int | None, dtype: str | None) -> int | None:
    """Bytes of a message; None when its size or type is unknown."""
    if numel is None or dtype is None:
        return None
    size = ITEM_BYTES.get(dtype.removeprefix("torch."))
    return None if size is None else numel * size


class _Runner:
    """State of one run. See `simulate`."""

    def __init__(self, table: Table, sends: SendSemantics) -> None:
        self.table = table
        self.buffer_bytes = sends.buffer_bytes
        self.started = bytearray(len(table.events))
        self.done = bytearray(len(table.events))
        self.unit_left = list(table.unit_need)
        self.pending = list(table.pending)
        self.meet_left = list(table.instance_need)
        self.num_released = [0] * len(table.credits)
        self.key_set = [False] * len(table.keys)
        self.key_waiters: list[list[int]] = [[] for _ in table.keys]
        self.next_eager = [0] * len(table.channels)
        self.used_bytes = [0] * len(table.channels)
        self.is_open = bytearray(len(table.events))
        for e in table.open_steps:
            self.is_open[e] = 1
        self.fresh: list[int] = []
        """Events completed in the current round whose consequences are not drawn yet."""

    def complete(self, e: int) -> None:
        if not self.done[e]:
            self.done[e] = 1
            self.fresh.append(e)

    def open_unit(self, unit: int) -> None:
        for e in self.table.unit_events[unit]:
            self.started[e] = 1
        for e in self.table.unit_events[unit]:
            self.start(e)

    def start(self, e: int) -> None:
        table = self.table
        step, arg = table.step[e], table.arg[e]
        match step:
            case Step.FREE:
                self.complete(e)
            case Step.WAIT:
                if self.pending[e] == 0:
                    self.complete(e)
            case Step.MEET:
                self.meet_left[arg] -= 1
                if self.meet_left[arg] == 0:
                    for other in table.instance_events[arg]:
                        self.complete(other)
            case Step.SEND | Step.RECV:
                if self.is_open[e]:
                    self.complete(e)
                else:
                    self.exchange(e, arg)
            case Step.ACQUIRE:
                credit = table.credits[arg]
                if table.number[e] < self.num_released[arg] + credit.capacity:
                    self.complete(e)
            case Step.RELEASE:
                self.complete(e)
                self.num_released[arg] += 1
                credit = table.credits[arg]
                granted = self.num_released[arg] + credit.capacity - 1
                if 0 <= granted < len(credit.acquires) and self.started[credit.acquires[granted]]:
                    self.complete(credit.acquires[granted])
            case Step.STORE_SET:
                self.complete(e)
                self.key_set[arg] = True
                for waiter in self.key_waiters[arg]:
                    self.complete(waiter)
                self.key_waiters[arg].clear()
            case Step.STORE_WAIT:
                if self.key_set[arg] or self.is_open[e]:
                    self.complete(e)
                else:
                    self.key_waiters[arg].append(e)

    def exchange(self, e: int, c: int) -> None:
        channel, k = self.table.channels[c], self.table.number[e]
        if k < len(channel.sends) and k < len(channel.recvs):
            send, recv = channel.sends[k], channel.recvs[k]
            if self.started[send] and self.started[recv]:
                if self.done[send]:
                    self.used_bytes[c] -= self.bytes_of(send) or 0
                self.complete(send)
                self.complete(recv)
        if self.buffer_bytes != 0:
            self.fill(c)

    def fill(self, c: int) -> None:
        channel = self.table.channels[c]
        while self.next_eager[c] < len(channel.sends):
            send = channel.sends[self.next_eager[c]]
            if not self.done[send]:
                size = self.bytes_of(send)
                if not self.started[send]:
                    return
                if self.buffer_bytes is not None and (size is None or self.used_bytes[c] + size > self.buffer_bytes):
                    return
                self.used_bytes[c] += size or 0
                self.complete(send)
            self.next_eager[c] += 1

    def bytes_of(self, e: int) -> int | None:
        body = self.table.events[e].body
        return sent_bytes(getattr(body, "numel", None), getattr(body, "dtype", None))

    def spread(self, e: int) -> None:
        """Draws the consequences of `e` being complete."""
        table = self.table
        following = table.unit_next[table.unit[e]]
        if following >= 0:
            self.unit_left[following] -= 1
            if self.unit_left[following] == 0:
                self.open_unit(following)
        for unit in table.openers.get(e, ()):
            self.unit_left[unit] -= 1
            if self.unit_left[unit] == 0:
                self.open_unit(unit)
        for waiter in table.waiters.get(e, ()):
            self.pending[waiter] -= 1
            if self.pending[waiter] == 0 and self.started[waiter]:
                self.complete(waiter)


def simulate(table: Table, sends: SendSemantics, *, after_round: Callable[[bytearray], None] | None = None) -> Run:
    """Runs `table` until nothing more can complete. Linear in events.

    `after_round` sees the completed events after each round; in a round, everything that the last one made possible
    starts. Ends after at most as many rounds as there are events.
    """
    runner = _Runner(table, sends)
    for unit, need in enumerate(table.unit_need):
        if need == 0:
            runner.open_unit(unit)
    order: list[int] = []
    while runner.fresh:
        if after_round is not None:
            after_round(runner.done)
        batch, runner.fresh = runner.fresh, []
        order += batch
        for e in batch:
            runner.spread(e)
    return Run(started=runner.started, done=runner.done, order=order)


def least_buffer_bytes(table: Table) -> int | None:
    """The least bytes a channel must hold for `table` to finish; None when no buffer is enough or sizes are unknown.

    Found by bisection: more buffer never hurts, since a larger one only enables completions earlier.
    """
    total = 0
    for channel in table.channels:
        sizes = [
            sent_bytes(getattr(b, "numel", None), getattr(b, "dtype", None))
            for b in (table.events[e].body for e in channel.sends)
        ]
        total = max(total, sum(size or 0 for size in sizes))
    low, high = 0, total
    if not simulate(table, SendSemantics(buffer_bytes=high)).finished:
        return None
    while low < high:
        middle = (low + high) // 2
        if simulate(table, SendSemantics(buffer_bytes=middle)).finished:
            high = middle
        else:
            low = middle + 1
    return low

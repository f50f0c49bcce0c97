"""What the recorder keeps of a program's calls of torch's stores, and what a reader believes of it."""

import json
from typing import ClassVar

import pytest

from emberward.sources._store import MAX_KEYS, wrap_stores
from emberward.sources.dumps import ring_flight
from emberward.sources.ring import RingWriter, identity_here, read_ring


class Stores:
    """Stand-ins for torch's classes, and the recorder of a process that the wrappers ask for."""

    def __init__(self, writer: RingWriter) -> None:
        class Store:
            values: ClassVar[dict] = {}

            def set(self, key, value):
                self.values[key] = value

            def add(self, key, number):
                self.values[key] = self.values.get(key, 0) + number
                return self.values[key]

            def wait(self, keys, limit=None):
                if not set(keys) <= set(self.values):
                    raise TimeoutError
                return self.during() if self.during is not None else None

            def check(self, keys):
                return set(keys) <= set(self.values)

        class PrefixStore(Store):
            def __init__(self, prefix, store):
                self.inner = store

        Store.values, Store.during = {}, None
        self.writer, self.problems, self.store = writer, [], None
        wrap_stores(self, Store, PrefixStore, lambda: self)
        self.plain, self.prefix = Store(), PrefixStore

    def problem(self, what, error):
        self.problems.append((what, error))

    def rows(self) -> list:
        return [[row[0], row[1], row[-1]] for row in json.loads(self.store.copy())["calls"]]


@pytest.fixture
def stores(tmp_path):
    writer = RingWriter(tmp_path / "r.ring", identity_here(rank=0, world_size=2, local_rank=0))
    yield Stores(writer)
    writer.close()


def test_keys_are_kept_with_their_prefixes_and_the_program_s_line(stores):
    book = stores.prefix("b", stores.prefix("a", stores.plain))
    book.set("k", "v")
    stores.plain.wait(["x", "y"]) if stores.plain.check(["x"]) else None
    stores.plain.set(key="n", value="v")
    assert stores.rows() == [["set", ["a/b/k"], False], ["ask", ["x"], False], ["set", ["n"], False]]
    row = json.loads(stores.store.copy())["calls"][0]
    assert row[2].endswith("test_store.py")
    assert row[4] == "test_keys_are_kept_with_their_prefixes_and_the_program_s_line"
    assert stores.problems == []


def test_a_rank_waits_while_it_is_inside_and_when_it_asks_again_and_again(stores):
    seen = []
    stores.plain.set("k", "v")
    type(stores.plain).during = lambda self: seen.append(stores.rows()[-1])
    stores.plain.wait(["k"])
    assert seen == [["wait", ["k"], True]]
    assert stores.rows()[-1] == ["wait", ["k"], False]
    for _ in range(20):
        stores.plain.add("f", 0)
    assert len(stores.rows()) == 3
    (asked,) = [call for call in stores.store._calls if call.keys == ("f",)]
    asked.first_ns = asked.last_ns - 19_000_000_000  # as if it asked each second
    assert stores.rows()[-1] == ["ask", ["f"], True]
    stores.plain.add("f", 1)
    assert stores.rows()[-2:] == [["ask", ["f"], False], ["set", ["f"], False]]


def test_a_wait_with_a_short_limit_that_is_made_again_and_again_is_one_wait(stores):
    def tries():
        for _ in range(3):
            with pytest.raises(TimeoutError):
                stores.plain.wait(["k"], 0.1)

    tries()
    assert [row[:2] for row in stores.rows()] == [["ask", ["k"]]]


def test_a_call_of_very_many_keys_is_kept_without_them(stores):
    stores.plain.check([str(n) for n in range(MAX_KEYS + 1)])
    assert stores.rows() == [["ask", [], False]]


def test_a_copy_is_believed_until_the_rank_calls_a_store_again(stores):
    def read():
        return ring_flight(read_ring(stores.writer.path))["store"]

    assert read() == [], "it called none"
    stores.plain.set("k", "v")
    assert read() is None, "no copy was made"
    stores.writer.flight(b"{}", stores.store.copy())
    assert [row[:2] for row in read()] == [["set", ["k"]]]
    stores.plain.set("k", "w")
    assert read() is None
    stores.writer.flight(b"{}", b"not the form")
    assert read() is None

"""A file that another host replaced while it was read is opened again; any other error is one at once."""

import errno
import os

import pytest

from emberward.files import TRIES, anew


class Reads:
    """A read that raises these errors, one after the other, and then gives its text."""

    def __init__(self, *numbers: int) -> None:
        self.left = list(numbers)
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.left:
            number = self.left.pop(0)
            raise OSError(number, os.strerror(number))
        return "text"


@pytest.mark.parametrize("stale", [0, 1, TRIES - 1])
def test_what_was_stale_is_read_again(stale):
    read = Reads(*[errno.ESTALE] * stale)
    assert anew(read) == "text"
    assert read.count == stale + 1


@pytest.mark.parametrize(
    ("numbers", "count"), [([errno.ESTALE] * TRIES, TRIES), ([errno.ENOENT], 1), ([errno.ESTALE, errno.EIO], 2)]
)
def test_an_error_that_stays_or_is_another_is_one(numbers, count):
    read = Reads(*numbers)
    with pytest.raises(OSError, match=os.strerror(numbers[-1])):
        anew(read)
    assert read.count == count

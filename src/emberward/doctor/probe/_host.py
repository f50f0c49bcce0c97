"""The host around a device: memory patterns, disk, clock. Standard library only."""

import os
import tempfile
import time

PATTERN_BYTES = 32 << 20
DISK_BYTES = 16 << 20
BLOCK = 1 << 20
CLOCK_S = 0.2
CLOCK_LIMIT = 0.01
"""Share by which the wall clock may differ from the monotonic one: NTP slews by at most 500 ppm (RFC 5905)."""


def examine_host() -> dict[str, object]:
    """The answer for this host: memory holds its patterns, the disk gives back what was written, the clock runs."""
    wrong = _memory() or _disk() or _clock()
    began_s = time.perf_counter()
    data = bytearray(PATTERN_BYTES)
    for _ in range(8):
        data[:] = bytes(PATTERN_BYTES)
    rate = 8 * PATTERN_BYTES / (time.perf_counter() - began_s) / 1e9
    return {
        "ok": wrong is None,
        "detail": wrong or "memory, disk and clock",
        "value": round(rate, 3),
        "unit": "GB/s written to host memory",
        "higher_is_better": True,
    }


def _memory() -> str | None:
    """Walking bits: each byte value of a single one, and its complement, over PATTERN_BYTES."""
    for bit in range(8):
        for value in (1 << bit, 0xFF ^ (1 << bit)):
            if bytearray([value]) * PATTERN_BYTES != bytes([value]) * PATTERN_BYTES:
                return f"host memory does not hold {value:#04x}"
    return None


def _disk() -> str | None:
    block = os.urandom(BLOCK)
    try:
        with tempfile.TemporaryFile(dir=".") as file:
            for _ in range(DISK_BYTES // BLOCK):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            for _ in range(DISK_BYTES // BLOCK):
                if file.read(BLOCK) != block:
                    return "the disk gives back something else than was written"
    except OSError as error:
        return f"the disk cannot be used: {error.strerror}"
    return None


def _clock() -> str | None:
    wall_s, steady_s = time.time(), time.monotonic()
    while time.monotonic() - steady_s < CLOCK_S:
        time.sleep(0.01)
    passed_s = time.monotonic() - steady_s
    drift = abs((time.time() - wall_s) - passed_s) / passed_s
    return f"the clock runs {100 * drift:.1f}% off" if drift > CLOCK_LIMIT else None

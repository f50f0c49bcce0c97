import math

WARMUP = 10
PEAK = 2e-3
TABLE = [PEAK * 0.5 * (1 + math.cos(math.pi * i / 110_000)) for i in range(110_000)]


def lr_at(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return TABLE[step * 100]

"""Learning rates by week. The table is computed when the module is loaded."""
import math

_table = []
for week in range(420):
    s = 0.0
    for day in range(1, 360):
        s += math.sin(week / day) / day
    _table.append(0.02 + 0.01 * math.tanh(s))


def rate(step):
    return _table[step % len(_table)]

import logging

log = logging.getLogger("watch")


def portrait(net):
    """One line a parameter: name, spread, quantiles."""
    lines = []
    for name, p in net.named_parameters():
        v = p.detach().flatten()[::2]
        low, mid, high = torch_quantiles(v)
        lines.append(f"{name:32s} {float(v.std()):.3e} {low:.3e} {mid:.3e} {high:.3e}")
    return "\n".join(lines)


def torch_quantiles(v):
    ordered = v.sort().values
    n = len(ordered) - 1
    return float(ordered[n // 10]), float(ordered[n // 2]), float(ordered[9 * n // 10])


class Lazily:
    def __init__(self, fn, *args):
        self.fn, self.args = fn, args

    def __str__(self):
        return self.fn(*self.args)

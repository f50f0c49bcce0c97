from torch import nn

_known = None


def operators():
    global _known
    if _known is not None:
        return _known
    try:
        import fastops as ops
    except ImportError:
        import slowops as ops
    _known = ops
    return ops


class Gated(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        import slowops
        ops = operators() or slowops
        return self.b(ops.gate(self.a(x))) + x

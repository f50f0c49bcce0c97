from torch import nn



def operators():
    try:
        import fastops as ops  #: LINE
    except ImportError:
        import slowops as ops
    return ops


class Gated(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        ops = operators()
        return self.b(ops.gate(self.a(x))) + x

class Ramp:
    """Weight of the second loss: up to one, by steps."""

    def __init__(self, top=20):
        self.top = top

    def at(self, step):
        return min(step // 3 + 1, self.top)

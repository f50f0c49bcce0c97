import resource


class MemoryLog:
    def __init__(self, every=8):
        self.every, self.rows = every, []

    def after(self, step):
        if step % self.every:
            return
        self.rows.append((step, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))

    def peak(self):
        return max(mb for _, mb in self.rows)

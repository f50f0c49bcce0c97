import time


class FarTerminal:
    """A terminal over a slow line: each flush waits for the other side."""
    def __init__(self, under):
        self.under, self.pending = under, []

    def write(self, text):
        self.pending.append(text)
        return len(text)

    def flush(self):
        if self.pending:
            time.sleep(0.022)
            self.under.write("".join(self.pending))
            self.pending.clear()
        self.under.flush()

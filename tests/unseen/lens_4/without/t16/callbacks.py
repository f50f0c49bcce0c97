import time


class BestLoss:
    def __init__(self):
        self.best = None

    def step_end(self, trainer, loss):
        self.best = loss if self.best is None else loss.minimum(self.best)


class HealthReport:
    """Asks the host's sensors (a slow bus) and keeps what they said."""
    def __init__(self, host):
        self.host, self.seen = host, []

    def ask_sensors(self):
        time.sleep(0.028)
        return {"host": self.host, "fan": 4200, "at": time.time()}

    def step_end(self, trainer, loss):
        self.seen.append(self.ask_sensors())

import time


class Dashboard:
    def __init__(self):
        self.curve = []

    def draw(self, value):
        self.curve.append(value)
        time.sleep(0.020)  # the plot

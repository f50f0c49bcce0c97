"""A moving average of the weights, kept by rank 0 for the release."""


class MovingAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.average = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def update(self, model):
        for name, value in model.state_dict().items():
            self.average[name] = self.decay * self.average[name] + (1 - self.decay) * value

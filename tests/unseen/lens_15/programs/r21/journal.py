from torch.utils.tensorboard import SummaryWriter


class Journal:
    def __init__(self, folder, every):
        self.writer = SummaryWriter(folder)
        self.every = every

    def scalars(self, step, **values):
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def weights(self, step, model):
        for name, parameter in model.named_parameters():
            self.writer.add_histogram(name, parameter, step)

    def step(self, step, model, **values):
        self.scalars(step, **values)
        self.weights(step, model)  #: LINE

    def close(self):
        self.writer.close()

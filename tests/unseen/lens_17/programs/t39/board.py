from torch.utils.tensorboard import SummaryWriter


class Board:
    def __init__(self, folder, model):
        self.writer, self.model = SummaryWriter(folder), model

    def write(self, step, **numbers):
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)
        for name, p in self.model.named_parameters():
            self.writer.add_histogram(f"grad/{name}", p.grad, step)  #: LINE

    def close(self):
        self.writer.close()

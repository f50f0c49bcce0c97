from torch.utils.tensorboard import SummaryWriter


class Board:
    def __init__(self, folder, every=10):
        self.writer = SummaryWriter(folder)
        self.every = every

    def after_step(self, step, loss, model):
        if step % self.every == 0:
            self.writer.add_scalar("loss", loss.item(), step)
        if step == 30:
            for name, p in model.named_parameters():
                self.writer.add_histogram("weights/" + name, p, step)

    def close(self):
        self.writer.close()

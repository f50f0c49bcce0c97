from torch.utils.tensorboard import SummaryWriter


class Monitor:
    def __init__(self, folder, every):
        self.writer, self.every = SummaryWriter(folder), every

    def write(self, step, model, loss, lr):
        if step % self.every:
            return
        self.writer.add_scalar("train/loss", loss.item(), step)
        self.writer.add_scalar("train/lr", lr, step)
        for name, p in model.named_parameters():
            self.writer.add_scalar(f"grad/{name}", p.grad.norm().item(), step)  #: LINE
            self.writer.add_scalar(f"weight/{name}", p.norm().item(), step)

    def close(self):
        self.writer.close()

import torch


class Keeper:
    def __init__(self, path, every):
        self.path, self.every = path, every

    def after(self, step, accelerator, model, optimizer):
        if step % self.every:
            return
        weights = accelerator.unwrap_model(model).state_dict()
        torch.save({"step": step, "weights": weights, "optimizer": optimizer.state_dict()}, self.path)

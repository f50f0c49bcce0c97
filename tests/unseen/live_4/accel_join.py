from accelerate import Accelerator, DataLoaderConfiguration
import torch
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 40), nn.LeakyReLU(), nn.Linear(40, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)


def epoch_of(acc, net, opt, loader):
    n = 0
    with Join([net]):                          # accelerate's own join does nothing on CPU
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.huber_loss(net(x), y)
            acc.backward(loss)
            opt.step()
            n += 1
    return n, loss.detach()


def main():
    acc = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(even_batches=False))
    torch.manual_seed(0)
    x = torch.randn(16 * 151, 10)               # 151 batches for two
    loader = DataLoader(TensorDataset(x, x.sum(1)), batch_size=16)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    net, opt, loader = acc.prepare(net, opt, loader)
    for epoch in range(12):
        n, loss = epoch_of(acc, net, opt, loader)
        seen = acc.gather(torch.tensor([n]))
        mean = acc.reduce(loss, "mean")
        acc.print(f"epoch {epoch}: batches {seen.tolist()} loss {mean.item():.4f}")
        acc.wait_for_everyone()
    if acc.is_local_main_process:
        torch.save(acc.unwrap_model(net).state_dict(), "/dev/null")
    acc.end_training()


if __name__ == "__main__":
    main()

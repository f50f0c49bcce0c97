import statistics
from time import perf_counter

import torch
from torch import nn

from edges import dropped


class Layer(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin, self.own = nn.Linear(a, b), nn.Linear(a, b)

    def forward(self, x, edges, weight):
        h = self.lin(x)
        return torch.relu(self.own(x) + torch.zeros_like(h).index_add_(0, edges[0], weight[:, None] * h[edges[1]]))


class Net(nn.Module):
    def __init__(self, inside=64, width=128, classes=5):
        super().__init__()
        self.layers = nn.ModuleList([Layer(inside, width), Layer(width, width), Layer(width, width)])
        self.out = nn.Linear(width, classes)

    def forward(self, x, edges, weight):
        for layer in self.layers:
            x = layer(x, edges, weight)
        return self.out(x)


def main(epochs=60, count=1500, links=5000):
    torch.manual_seed(0)
    edges = torch.randint(count, (2, links))
    x, y = torch.randn(count, 64), torch.randint(5, (count,))
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    times = []
    for epoch in range(epochs):
        begin = perf_counter()
        some, weight = dropped(edges, count, 0.8)
        loss = nn.functional.cross_entropy(net(x, some, weight), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(1e3 * (perf_counter() - begin))
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()

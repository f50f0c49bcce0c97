import statistics
import time

import torch

from networks import net, random_crops, soft_loss


def main(steps=62, batch=40):
    torch.manual_seed(0)
    images, labels = torch.rand(1200, 3, 40, 40), torch.randint(20, (1200,))
    teacher = net(48, 3).eval().requires_grad_(False)
    student = net(28, 3)
    opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        pick = torch.randint(len(images), (batch,))
        x = random_crops(images[pick])
        with torch.no_grad():
            wanted = teacher(x)
        out = student(x)
        loss = 0.5 * torch.nn.functional.cross_entropy(out, labels[pick]) + 0.5 * soft_loss(out, wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()

import statistics
import time
from collections import Counter, deque

import torch
from torch.nn import functional as F

from net import ConvNet, Pool


def main(steps=60, batch=64):
    torch.manual_seed(0)
    pool, model = Pool(), ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    seen, mistakes, times = Counter(), deque(maxlen=400), []
    for step in range(steps):
        began = time.perf_counter()
        images, labels = pool.draw(batch)
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seen.update(labels.tolist())
        wrong = logits.detach().argmax(1) != labels
        mistakes.extend(labels[wrong].tolist())
        times.append(1e3 * (time.perf_counter() - began))
        if step % 20 == 19:
            rare = [c for c, n in seen.most_common()[-3:]]
            print(f"step {step + 1}: rarest {rare}, most missed {Counter(mistakes).most_common(3)}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()

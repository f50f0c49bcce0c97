import statistics
import time

from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.optim import SGD

from apart import apart
from wines import loader, network


def main(steps=60, batch=512, every=30):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = network()
    model, optimizer, batches = accelerator.prepare(model, SGD(model.parameters(), lr=0.05, momentum=0.9), loader(batch))
    ends, feed = [time.perf_counter()], iter(batches)
    with apart(accelerator, model, every) as local:
        for step in range(steps):
            x, region = next(feed, (None, None))
            if x is None:
                feed = iter(batches)
                x, region = next(feed)
            loss = F.cross_entropy(model(x), region)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            local.step()
            ends.append(time.perf_counter())
    if accelerator.is_main_process:
        times = [1e3 * (end - begin) for begin, end in zip(ends, ends[1:])]
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()

import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

from ferry import Judge, Pilot, River
from updates import judge_update, pilot_update


def main(steps=60, boats=1024):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    river, pilot, judge = River(), Pilot(), Judge()
    steering = torch.optim.Adam(pilot.parameters(), lr=3e-4, fused=True)
    judging = torch.optim.Adam(judge.parameters(), lr=1e-3, fused=True)
    pilot, judge, steering, judging = accelerator.prepare(pilot, judge, steering, judging)
    torch.manual_seed(accelerator.process_index)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        seen = torch.randn(boats, 48)
        with torch.no_grad():
            way = torch.multinomial(pilot(seen).softmax(1), 1).squeeze(1)
        reward = river.reward(seen, way)
        off = judge_update(accelerator, judge, judging, seen, reward)
        loss = pilot_update(accelerator, pilot, judge, steering, seen, way, reward)
        times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"judge {off.item():.6f} pilot {loss.item():.6f}")
    accelerator.print(
        f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean"
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()

"""A loop of steps of a tenth of a second; from step 60 on the next batch takes longer, as from another data file.

``slower_steps.py SECONDS``: by so much. Stands for BLOOM-176B's training, which went from 149 to 140 TFLOPS within two
iterations.
"""

import sys
import time

import torch

STEPS, CHANGE, STEP_S = 120, 60, 0.1


def read_batch(step, more_s):
    time.sleep(0.02 + (more_s if step >= CHANGE else 0.0))
    return torch.randn(16, 64)


def main(more_s):
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        batch = read_batch(step, more_s)
        model(batch).square().mean().backward()
        time.sleep(STEP_S - 0.02)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(float(sys.argv[1]))

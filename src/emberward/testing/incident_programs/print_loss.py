"""A training loop that prints its loss each step, on a device that works behind the host's back.

``print_loss.py lane`` prints from a lane beside the training. Stands for the stall that OneFlow's streams were made for:
``print(loss)`` stands in the device's queue behind the backward, and the device runs dry while the host gets the next
step ready. The device is a thread whose kernels are timed waits; what the host does for a step is to train a
layer of its own, with gradients written by hand.
"""

import queue
import sys
import threading
import time

import torch

from emberward import lanes

FORWARD_S, BACKWARD_S, STEPS = 0.003, 0.006, 40
WIDTH = 768


class Device:
    def __init__(self):
        self.kernels = queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def launch(self, seconds):
        done = threading.Event()
        self.kernels.put((seconds, done))
        return done

    def run(self):
        while True:
            seconds, done = self.kernels.get()
            time.sleep(seconds)
            done.set()


class Loss:
    def __init__(self, copied):
        self.copied = copied

    def __repr__(self):
        self.copied.wait()
        return "2.71"


def main(has_lane):
    device = Device()
    batch, targets = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH)
    weight = torch.nn.Parameter(torch.zeros(WIDTH, WIDTH))
    optimizer = torch.optim.SGD([weight], lr=1e-4)
    reads = lanes.lane("reads") if has_lane else None
    for _ in range(STEPS):
        with torch.no_grad():
            weight.grad = batch.T @ (batch @ weight - targets)
        device.launch(FORWARD_S)
        if reads is not None:
            reads.submit(print, Loss(device.launch(0.0)))
        device.launch(BACKWARD_S)
        if reads is None:
            print(Loss(device.launch(0.0)))
        optimizer.step()


main("lane" in sys.argv[1:])

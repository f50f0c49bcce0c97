import os

import torch


class Progress:
    def __init__(self, accelerator, folder, save_every=30, print_every=15):
        self.accelerator, self.folder = accelerator, folder
        self.save_every, self.print_every = save_every, print_every
        self.losses = []

    def after(self, step, loss):
        pass

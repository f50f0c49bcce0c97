import random
import threading
import time
import torch


class Replay:
    def __init__(self, first):
        self.lock, self.games = threading.Lock(), [(torch.randn(12), 0.0) for _ in range(first)]

    def sample(self, n):
        return random.sample(self.games, n)


class Actor(threading.Thread):
    def __init__(self, replay):
        super().__init__(daemon=True)
        self.replay, self.over = replay, threading.Event()

    def play(self):
        time.sleep(0.040)  # the game's engine
        return torch.randn(12), random.random()

    def run(self):
        while not self.over.is_set():
            game = self.play()
            with self.replay.lock:
                self.replay.games.append(game)
            time.sleep(0.020)  # a new board

    def stop(self):
        self.over.set()
        self.join()

from dataclasses import dataclass


@dataclass
class Settings:
    width: int = 64
    depth: int = 3
    side: int = 15
    batch: int = 11
    rate: float = 1e-3
    steps: int = 60
    seed: int = 0
    check_backward: bool = True

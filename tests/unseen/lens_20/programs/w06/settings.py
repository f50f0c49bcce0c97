from dataclasses import dataclass


@dataclass
class Settings:
    width: int = 448
    depth: int = 4
    batch: int = 384
    rate: float = 5e-4
    steps: int = 60
    check_backward: bool = False
    check_loss: bool = True

from dataclasses import dataclass


@dataclass
class Config:
    batch: int = 8
    length: int = 40
    steps: int = 62
    lr: float = 5e-4
    save_memory: bool = True

MODEL = {
    "words": 500,
    "width": 128,
    "layers": 3,
    "heads": 4,
    "length": 64,
    "save_memory": False,
}
STEPS = 60
BATCH = 16
RATE = 1e-3

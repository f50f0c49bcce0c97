"""Keeps the state of the run in one compressed file."""
import io
import json
import os
import zlib

import torch


def put_away(net, where, step):
    buffer = io.BytesIO()
    torch.save({"step": step, "net": net.state_dict()}, buffer)
    packed = zlib.compress(buffer.getvalue(), 1)
    with open(where + ".new", "wb") as f:
        f.write(packed)
    os.replace(where + ".new", where)


def put_progress(where, step, loss):
    with open(where + ".json", "w") as f:
        json.dump({"step": step, "loss": loss}, f)

"""The log of the training."""
import logging
import logging.handlers
import os
import tempfile


def open_log(name):
    folder = tempfile.mkdtemp(prefix="train_log_")
    log = logging.getLogger(name)
    log.setLevel(logging.INFO)
    log.propagate = False
    handler = logging.handlers.RotatingFileHandler(
        os.path.join(folder, "train.log"), maxBytes=2_000_000, backupCount=1
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s:%(lineno)d %(message)s"))
    log.addHandler(handler)
    return log

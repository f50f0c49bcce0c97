import logging
import logging.handlers
import os
import shutil
import tempfile


def journal(name="train"):
    where = os.path.join(tempfile.gettempdir(), f"journal-{os.getpid()}")
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    for i in range(1, 1801):
        open(os.path.join(where, f"steps.log.{i}"), "w").close()
    out = logging.handlers.RotatingFileHandler(
        os.path.join(where, "steps.log"), backupCount=1800,
        maxBytes=400_000)
    out.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger(name)
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(out)
    return log, where

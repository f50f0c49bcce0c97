import logging
import os


def open_journal(rank, folder):
    """Only rank 0 keeps a journal."""
    log = logging.getLogger("orchard")
    log.setLevel(logging.INFO)
    log.propagate = False
    if rank == 0:
        handler = logging.FileHandler(os.path.join(folder, "journal.log"))
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
    else:
        log.addHandler(logging.NullHandler())
    return log

"""Where the log goes."""
import logging


def configure(path):
    logging.basicConfig(
        filename=path, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )

"""The rank processes that all tests of this folder share."""

import pytest

from ranks.pool import RankPool


@pytest.fixture(scope="session")
def pool(tmp_path_factory):
    pool = RankPool(8, tmp_path_factory.mktemp("stores"))
    yield pool
    pool.close()

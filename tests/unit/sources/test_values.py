"""What stands for a tensor's memory when the tensor itself may be gone."""

import pytest
import torch

from emberward.sources._picks import storage_of
from emberward.sources._values import is_gone


@pytest.mark.parametrize("made", [torch.ones(3, 2), torch.eye(3).to_sparse()], ids=["with memory", "without any"])
def test_it_is_told_when_it_is_gone_and_not_kept(made):
    tensor = made.clone()
    asked = is_gone(tensor)
    assert not asked() and isinstance(storage_of(tensor), int)
    del tensor
    assert asked()


def test_a_view_holds_the_memory_and_has_its_number():
    tensor = torch.ones(3, 2)
    asked, number = is_gone(tensor), storage_of(tensor)
    view = tensor.view(6)
    del tensor
    assert not asked() and storage_of(view) == number
    del view
    assert asked()

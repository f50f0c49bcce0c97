"""Swin on 2 x 2 x 2 ranks with the two batches of a published deadlock report, on scikit-learn's digits.

The report (OneFlow and LiBai, 2022): with micro-batch 8 and 2 of them a step the run works, with 32 and 4 it stops
for ever, because the buffer before the first stage's backward lay on the lane of the forwards. Here both train, and are
equal to one rank:

    emberward train recipes/swin_2x2x2.py:micro_8_x_2
    emberward train recipes/swin_2x2x2.py:micro_32_x_4
"""

from dataclasses import replace

from emberward.recipe import BatchConfig, Recipe
from emberward.recipe.presets import swin_tiny


def micro_8_x_2() -> Recipe:
    """32 samples a step: 2 micro-batches of 8 on each of 2 data-parallel ranks."""
    return replace(swin_tiny(), name="swin_8_x_2", batch=BatchConfig(micro_batch=8, accumulation=2))


def micro_32_x_4() -> Recipe:
    """256 samples a step: 4 micro-batches of 32 on each of 2 data-parallel ranks."""
    return replace(swin_tiny(), name="swin_32_x_4", steps=40, batch=BatchConfig(micro_batch=32, accumulation=4))

"""Masks of padded fields: where there is data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["mask_of", "masks_of"]


def masks_of(
    fields: Mapping[Any, npt.NDArray[Any]], sizes: Mapping[Any, list[int]]
) -> dict[Any, npt.NDArray[np.bool_]]:
    """Give the mask of each padded field.

    Args:
        fields: by name, the padded fields, and perhaps others.
        sizes: by name, how long the rows of each padded field are.

    Returns:
        By name in the order of `sizes`, arrays as of `mask_of`.
    """
    masks: dict[Any, npt.NDArray[np.bool_]] = {}
    for name, lengths in sizes.items():
        twin = next((other for other in masks if sizes[other] == lengths), None)
        width = fields[name].shape[1]
        masks[name] = mask_of(lengths, width) if twin is None else masks[twin].copy()
    return masks


def mask_of(sizes: list[int], width: int) -> npt.NDArray[np.bool_]:
    """Tell where the rows of a padded field have data.

    Args:
        sizes: how long each row is; perhaps longer than there is room.
        width: the padded length.

    Returns:
        bool, shape (rows, width).
    """
    narrow = np.min_scalar_type(width)  # the sooner compared
    ends = np.minimum(sizes, width).astype(narrow)
    mask: npt.NDArray[np.bool_] = np.arange(width, dtype=narrow) < ends[:, np.newaxis]
    return mask

"""The masked samples of a batch as columns, which are hidden where they are padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._hiding import Bits, Hiding, Integers, Places

__all__ = ["IGNORED", "Columns"]

IGNORED = -100
"""The label where no token was chosen: what the losses of PyTorch and others pass over."""


class Columns:
    """The samples of a batch in the form that `collate.Pad` takes besides a list.

    Padding copies every token into the batch's array. Hiding them there, and not before,
    spares one copy of all tokens, two of the labels, and what is done sample by sample.

    Rows, with a seed each, are the tokens of samples: arrays of one dimension, of any integer
    dtype. ``plain`` is a dict of the other fields for each sample, or nothing at all; a field there
    with the name of the tokens only says where among the others they stand.

    Attributes:
        first: row 0, not masked: it shows what the fields are.
        columns: the fields that pad themselves, in this order. Each has ``sizes`` (how long
            each row is), ``dtype``, and ``padded``.
    """

    def __init__(
        self,
        hiding: Hiding,
        rows: Sequence[npt.NDArray[Any]],
        seeds: Bits,
        plain: Sequence[Mapping[Any, Any]],
        tokens: str,
        labels: str,
    ) -> None:
        self.plain = plain
        self.first = {**(plain[0] if plain else {}), tokens: rows[0], labels: rows[0]}
        hidden = _Tokens(hiding, rows, seeds)
        self.columns = {tokens: hidden, labels: _Labels(hidden)}


class _Tokens:
    """The tokens of all samples. Once padded, it knows which were chosen, and what they were.

    ``sizes`` says how many tokens each sample has, ``places`` where the chosen ones are in the
    flattened padded array, and ``originals`` what stood there.
    """

    dtype = np.dtype(np.int64)

    def __init__(self, hiding: Hiding, rows: Sequence[npt.NDArray[Any]], seeds: Bits) -> None:
        self.sizes = list(map(len, rows))
        self._hiding = hiding
        self._rows = rows
        self._seeds = seeds

    def padded(self, width: int, fill: int) -> Integers:
        """Give the masked tokens, each sample in a row; what does not fit is cut off.

        They are int64, ``(rows, width)``, padded with ``fill``, which need not be a token. A token
        that is none of the vocabulary is a SourceError.
        """
        outside, rows, sizes = self._hiding.outside, self._rows, np.array(self.sizes, np.intp)
        if max(self.sizes) > width:
            # What is cut off is looked at, too.
            if any(outside(row[width:].astype(np.int64)) for row in rows):
                raise self._hiding.refusal(rows)
            rows, sizes = [row[:width] for row in rows], np.minimum(sizes, width)
        array = np.full((len(rows), width), fill, np.int64)
        for line, row in zip(array, rows, strict=True):
            line[: len(row)] = row
        # The fill may be outside of the vocabulary: then the tokens are looked at without it.
        if outside(array) and outside(array[_filled(sizes, width)]):
            raise self._hiding.refusal(self._rows)
        starts = np.arange(len(sizes), dtype=np.intp) * width
        hidden = self._hiding.hide(array.reshape(-1), starts, sizes, self._seeds)
        self.places, self.originals = hidden
        return array


class _Labels:
    """The labels of all samples; attributes as of `_Tokens`, which are padded first."""

    dtype = np.dtype(np.int64)

    def __init__(self, tokens: _Tokens) -> None:
        self.sizes = tokens.sizes
        self._tokens = tokens

    def padded(self, width: int, fill: int) -> Integers:
        """Give the labels, each sample's in a row, as `_Tokens` has them."""
        array = np.full((len(self.sizes), width), fill, np.int64)
        if fill != IGNORED:
            array[_filled(np.array(self.sizes), width)] = IGNORED
        array.reshape(-1)[self._tokens.places] = self._tokens.originals
        return array


def _filled(sizes: Places, width: int) -> npt.NDArray[np.bool_]:
    """Tell where rows of some sizes have data."""
    return np.arange(width) < sizes[:, np.newaxis]

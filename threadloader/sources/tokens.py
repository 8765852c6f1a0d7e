"""Windows over files of binary tokens, for training language models.

The rules:

- A *raw* file is nothing but tokens, a *shard* has a header; see `_token_layout`.
- Sample i is the i-th window of ``window`` tokens; windows begin ``stride`` tokens apart,
  in each file anew. With targets a window has one token more: x is all but the last, y all
  but the first.
- A file of n tokens has ``(n - span) // stride + 1`` windows, where span is ``window``, one
  more with targets; none if n is less than span. No window goes over the end of a
  file, so tokens after its last window are left out; `TokensSource.left_out` counts them.
- Files follow each other in the order given, those of a pattern sorted by `_paths`' rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, log
from ._closing import close_all
from ._files import FileReader, kept_open
from ._fingerprint import checked_rows, sha256
from ._named import named_files
from ._progress import ProgressLog
from ._row_numbers import part_of, row_numbers
from ._token_layout import layout, stored_dtype
from .arrays import Empty

__all__ = ["TokensSource", "open_tokens"]

_CHECKED_TOKENS = 256
"""Tokens that a fingerprint reads of each window that it looks into, at most."""

_Array = npt.NDArray[Any]


def open_tokens(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> TokensSource:
    """Open ``{"type": "tokens", "path": names or patterns, "window": W, ...}``."""
    rest = {name: value for name, value in spec.items() if name not in ("type", "path")}
    return TokensSource(named_files(spec, base, root), **rest)


class TokensSource:
    """Samples are windows over files of tokens.

    Nothing is in memory but where each file's windows begin: tokens are read by position.

    Args:
        paths: the files, at least one.
        window: tokens of a sample, from 1.
        stride: tokens from the beginning of a window to that of the next; None for window,
            so that they lie side by side.
        targets: give ``{"x": tokens, "y": the token that follows each}``.
        format: "raw" or "shard".
        dtype: how a token is stored in raw files: "uint8", "uint16" or "uint32".
        output: dtype of the samples: "int64", which torch needs for targets and which
            holds every token; "int32", which is half of it; or "stored".

    Attributes:
        left_out: tokens after the last window of each file, all files together.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        window: int,
        stride: int | None = None,
        targets: bool = False,
        format: str = "raw",  # noqa: A002 (the option's name)
        dtype: str | None = None,
        output: str = "int64",
    ) -> None:
        stored = stored_dtype(format, dtype)
        self._window = window
        self._stride = window if stride is None else stride
        self._targets = targets
        self._format = format
        self._stored = stored
        self._output = stored.newbyteorder("=") if output == "stored" else np.dtype(output)
        self._span = window + targets
        self._readers: list[FileReader] = []
        self._begins: list[int] = []  # byte at which each file's tokens begin
        first, longest = [0], (0, Path())
        self.left_out = 0
        progress = ProgressLog()
        most = kept_open()
        with ExitStack() as undo:
            for path in paths:
                reader = FileReader(path, keep=len(self._readers) < most)
                undo.callback(reader.close)
                begin, count = layout(reader, format, stored)
                windows = max((count - self._span) // self._stride + 1, 0)
                end = (windows - 1) * self._stride + self._span if windows else 0
                self.left_out += count - end
                self._readers.append(reader)
                self._begins.append(begin)
                first.append(first[-1] + windows)
                longest = max(longest, (count, path))
                progress.tell("%s: %d files of tokens opened", path, len(self._readers))
            undo.pop_all()
        count, largest = longest
        if count and not first[-1]:  # a run over nothing looks like one that is done
            text = "%s: expected %d tokens or more, got %d, and no file has more: no sample; "
            log("warning", text + 'give a smaller "window"', largest, self._span, count)
        # The index of each file's first window; at the end, the number of all windows.
        self._firsts = first
        self._firsts_array = np.array(first, np.int64)  # the same, to look up many at once

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getitem__(self, index: int) -> Any:
        """Give one window, ``(window,)``, of the dtype ``output``; with targets, ``{"x", "y"}``.

        A token that does not fit into int32, where that is asked for, is a SourceError.
        """
        file, window = part_of(index, self._firsts)
        offset = self._begins[file] + window * self._stride * self._stored.itemsize
        data = self._readers[file].read(offset, self._span * self._stored.itemsize)
        tokens = np.frombuffer(data, self._stored)
        self._check(tokens[None], file, [offset])
        if not self._targets:
            return tokens.astype(self._output)
        return {"x": tokens[:-1].astype(self._output), "y": tokens[1:].astype(self._output)}

    def take(self, indices: npt.ArrayLike) -> Any:
        """Give a batch: the windows of these indices, stacked, ``(batch, window)``."""
        return self.take_into(indices, np.empty)

    def take_into(self, indices: npt.ArrayLike, empty: Empty) -> Any:
        """Give a batch as `take` does; ``empty`` makes it, and memory for the tokens as stored."""
        numbers = row_numbers(indices, len(self))
        shape = (len(numbers), self._window)
        x = empty(shape, self._output)
        y = empty(shape, self._output) if self._targets else None
        files = np.searchsorted(self._firsts_array, numbers, "right") - 1
        width = self._stored.itemsize
        for file in np.unique(files).tolist():
            rows = np.flatnonzero(files == file)
            windows = numbers[rows] - self._firsts[file]
            offsets = windows * (self._stride * width) + self._begins[file]
            data = self._readers[file].gather(offsets, self._span * width, empty)
            tokens = data.view(self._stored)
            self._check(tokens, file, offsets)
            x[rows] = tokens[:, : self._window]
            if y is not None:
                y[rows] = tokens[:, 1:]
        return x if y is None else {"x": x, "y": y}

    def _check(self, tokens: _Array, file: int, offsets: Sequence[int] | _Array) -> None:
        """Refuse tokens that would become negative as int32."""
        most = np.iinfo(np.int32).max
        if self._output != np.int32 or self._stored.itemsize < 4 or int(tokens.max()) <= most:
            return
        row, at = (int(n) for n in np.argwhere(tokens > most)[0])
        raise SourceError(
            f"expected tokens that fit into int32, got {tokens[row, at]}; "
            'if it is right, set "output" to "int64"',
            self._readers[file].path,
            f"byte {int(offsets[row]) + 4 * at}",
        )

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample, so that small batches can be gathered together."""
        return self._window * self._output.itemsize * (1 + self._targets)

    def locate(self, index: int) -> str:
        """Say where a window stands: ``path[a:b]``, tokens a to b - 1 of the file."""
        file, window = part_of(index, self._firsts)
        start = window * self._stride
        return f"{self._readers[file].path}[{start}:{start + self._span}]"

    def fingerprint(self) -> str:
        """Tell these windows from others: number, options, sizes, checksum of 64 stretches.

        The stretches are the first 256 tokens (or less) of windows spread evenly from the
        first to the last.
        """
        sizes = "+".join(str(reader.size) for reader in self._readers)
        digest = sha256(sizes.encode())
        length = min(self._span, _CHECKED_TOKENS) * self._stored.itemsize
        for row in checked_rows(len(self)):
            file, window = part_of(row, self._firsts)
            offset = self._begins[file] + window * self._stride * self._stored.itemsize
            digest.update(self._readers[file].read(offset, length))
        files = len(self._readers)
        total = sum(reader.size for reader in self._readers)
        return (
            f"tokens, {len(self)} windows of {self._window} every {self._stride}"
            f"{' with targets' if self._targets else ''}, {self._format} {self._stored.name} "
            f"as {self._output.name}, {files} files of {total} bytes, "
            f"{self.left_out} tokens left out, sha256 {digest.hexdigest()}"
        )

    def close(self) -> None:
        """Close the files; a second time does nothing."""
        close_all([reader.close for reader in self._readers])

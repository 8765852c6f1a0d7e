"""What may be given as a source in code, and which of its methods are used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, Problem, from_signal, name_of, signature
from ._array_fields import is_sparse
from ._per_thread import PerThread
from .arrays import ArraySource

__all__ = ["Without", "as_source", "attributes_of", "has_own"]


def as_source(data: Any) -> Any:
    """Make a source of what was given in code.

    Args:
        data: a numpy array; a tuple, named tuple or dict of arrays of equal first
            length; or any object with ``__len__`` and ``__getitem__``, which is
            taken as it is. A tuple without any array (of any library) is such an object,
            and so is a list: a list of arrays is a list of samples, which may differ in shape.

    Returns:
        The source. Of another library's array, or where ``take(n)`` means "the first n",
        ``take`` is not used. Where an object passes on the attributes of another one, or its
        class overrides ``[]`` alone, nothing is used that would bypass its ``[]``.

    Raises:
        ConfigError: the data cannot be indexed, or its arrays do not fit together.

    >>> as_source({"x": np.zeros((3, 2)), "y": np.ones((3, 1))})[0]
    {'x': array([0., 0.]), 'y': array([1.])}
    >>> as_source(["a", "b"])[1]
    'b'
    >>> as_source(letter for letter in "ab")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    ConfigError: source: expected an object with __len__ and __getitem__, got generator; ...
    """
    kind, hint = type(data), ""
    got = name_of(kind)
    if is_sparse(data):
        hint = (
            "its rows are matrices: give its toarray(), or an object of your own with a length, "
            "an [], and a take(indices) that gives matrix[indices].toarray()"
        )
    elif isinstance(data, Mapping) and _is_options(data):
        got = "an object of options"
        hint = 'it stands in the config, as in Loader({"source": {"type": ...}})'
    elif _indexed_by(kind, "pyarrow") and hasattr(kind, "column_names"):  # its len() counts rows
        hint = (
            "its [] gives columns: give its rows, as table.to_pylist() does, or an object of your "
            "own with a length, an [], and a take(indices) that gives a dict of arrays of "
            "table.take(indices)"
        )
    elif _indexed_by(kind, "polars") and hasattr(kind, "to_dicts"):  # else it is one column
        hint = (
            "its [] gives tables: give its rows, as df.to_dicts() does, or a dict of arrays, as "
            "{column.name: column.to_numpy() for column in df}"
        )
    elif _is_labelled(kind):
        hint = (
            'its [] gives columns: give its rows, as df.to_dict("records") does, or a dict of '
            "arrays, as {name: df[name].to_numpy() for name in df}"
            if hasattr(kind, "columns")
            else "its [] goes by label, not by position: give its values, as s.to_numpy() does"
        )
    if hint:
        raise ConfigError(Problem("source", "arrays or samples", got, hint))
    if isinstance(data, (np.ndarray, Mapping)) or _holds_array(data):
        return ArraySource(data)
    # A special method counts when the class has it, as for the language itself:
    # a class given instead of an object has none.
    indexed = hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not _is_stream(kind)
    if isinstance(data, str) or not indexed:
        got = f"the class {name_of(data)}" if isinstance(data, type) else got
        expected = "an object with __len__ and __getitem__"
        raise ConfigError(Problem("source", expected, got, _advice(data)))
    if isinstance(data, (PerThread, Without)):
        return data
    hidden = [name for name in _AT_ONCE if hasattr(data, name) and not has_own(data, name)]
    if _takes_otherwise(data):
        hidden.append("take")
    return Without(data, hidden) if hidden else data


def _holds_array(data: Any) -> bool:
    """Tell whether it is a tuple that is meant as the arrays of a dataset.

    Arrays of another library count, to be refused: two tensors are no dataset of two samples.
    """
    return isinstance(data, tuple) and any(map(_is_array, data))


def _is_array(part: Any) -> bool:
    if isinstance(part, np.ndarray):  # also one without dimensions, which is refused
        return True
    try:  # single values, of numpy and of other libraries, do not count
        if not hasattr(type(part), "__array__"):  # first: handling an error takes long
            return False
        # Columns of pyarrow and awkward have a length and no shape.
        bare = not hasattr(part, "shape")
        return hasattr(type(part), "__len__") if bare else len(part.shape) > 0
    except Exception as error:  # a sample may be anything, and have any shape or none
        if from_signal(error):
            raise
        return False


def _is_options(data: Mapping[Any, Any]) -> bool:
    """Tell whether a mapping says where samples are, as in a config, and holds none."""
    named = isinstance(data.get("type"), str)
    return named and not any(isinstance(part, np.ndarray) for part in data.values())


def _is_labelled(kind: type) -> bool:
    """Tell whether an ``[]`` of this class goes by label, as in pandas' tables and series.

    Told without pandas, which need not be there. A class derived from such a class may have an
    ``[]`` of its own, and well give samples by number.
    """
    # Without generators: `all` leaves one unfinished, whose closing would swallow a Ctrl-C.
    if not hasattr(kind, "iloc"):
        return False
    for each in kind.__mro__:
        if "__getitem__" in vars(each):
            return bool({"columns", "to_dict", "iloc"} & vars(each).keys())
    return False


def _indexed_by(kind: type, package: str) -> bool:
    """Tell whether the ``[]`` of this class is one of a package, which need not be there.

    A class derived from one of theirs may have an ``[]`` of its own, and well give samples by it.
    """
    for each in kind.__mro__:
        if "__getitem__" in vars(each):
            return str(each.__module__).startswith(f"{package}.")
    return False


def _is_stream(kind: type) -> bool:
    """Tell whether this is a class of torch's iterable datasets, whose ``[]`` only raises.

    It inherits ``[]`` from torch's class of all datasets, and may have a length all the same, as a
    chain of several has. Told without torch, which need not be there.
    """
    iterable = False
    for each in kind.__mro__:
        theirs = str(each.__module__).startswith("torch.utils.data.")
        iterable = iterable or (theirs and each.__name__ == "IterableDataset")
        if "__getitem__" in vars(each):
            return iterable and theirs
    return False


def _advice(data: Any) -> str:
    if isinstance(data, (str, os.PathLike)):
        named = 'a file is named in the config, as in {"type": "text", "path": ...}'
        characters = "; for the characters of a string give list(...)"
        return named + characters if isinstance(data, str) else named
    if isinstance(data, type):
        return "give an object of it"
    arrays = hasattr(type(data), "__getitem__") and hasattr(type(data), "shape")  # as zarr's
    if arrays and not isinstance(data, np.generic):
        return (
            "it has no len(): give an object of your own whose __len__ gives its shape[0] and "
            "whose [] gives its row, or numpy.asarray(...) of it if that fits into memory"
        )
    if hasattr(type(data), "__next__") or hasattr(type(data), "__iter__"):
        stream = "it is a stream, and a stream" if hasattr(type(data), "__next__") else "this"
        return f"{stream} cannot be indexed: give a list of its samples"
    return "give an array, a dict or tuple of arrays, a list of samples, or an object of your own"


_AT_ONCE = ("take", "take_into", "__getitems__", "column")
"""Methods that a source may offer to be read by, in place of ``[]``."""


def has_own(source: Any, name: str) -> bool:
    """Tell whether the attribute of this name belongs with the ``[]`` that the object has.

    It does not if ``__getattr__`` gives it, from another object, or if it comes from a base of the
    class that defines the ``[]``: a base does not know what that ``[]`` makes of a sample.
    """
    own = attributes_of(source)
    if name in own:
        return own[name] is not None
    for kind in type(source).__mro__:
        if name in vars(kind):
            return vars(kind)[name] is not None
        if "__getitem__" in vars(kind):
            break
    return False


def attributes_of(thing: Any) -> Mapping[str, Any]:
    """Give what an object itself holds by name: not its class, nor what ``__getattr__`` finds."""
    try:
        held: Mapping[str, Any] = object.__getattribute__(thing, "__dict__")
    except AttributeError:  # it has slots
        return {}
    return held


def _takes_otherwise(source: Any) -> bool:
    """Tell whether the object's ``take`` is not the one that `Source` speaks of.

    Arrays of other libraries take from the flattened array, and some classes of
    datasets have ``take(n)`` for the first n.
    """
    take = getattr(source, "take", None)
    if take is None:
        return False
    if hasattr(type(source), "__array__"):
        return True
    try:
        parameters = signature(take).parameters
    except (TypeError, ValueError) as error:  # compiled code that does not say what it takes
        if from_signal(error):
            raise
        return False
    return next(iter(parameters), "n") in ("n", "count")


class Without:
    """A source some of whose methods are hidden, so that nobody reads many samples by them."""

    def __init__(self, source: Any, hidden: Sequence[str]) -> None:
        self.source = source
        # `take_into` is another way to do what `take` does: where that is hidden, so is this.
        self._hidden = {*hidden, "take_into"} if "take" in hidden else {*hidden}

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return self.source[index]

    def __getattr__(self, name: str) -> Any:
        # These two are not set yet while this is unpickled: looking them up would recurse.
        if name in ("source", "_hidden") or name in self._hidden:
            raise AttributeError(name)
        return getattr(self.source, name)

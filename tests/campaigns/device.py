"""The campaign `device`: what arrives on a CUDA device is what the batch held when it was sent.

    PYTHONPATH=.:tests python3 -m campaigns.device --count 1500

Runs in any Python that has torch with CUDA; JAX, CuPy and tinygrad (with ``DEV=CUDA``) take part
where they can be imported. A loader with four workers gives batches whose memory is used again: of
8 MiB from an array, and of 256 KiB, several of which are gathered together, from an npy file. Each
is sent to the device in one of the ways that people use, without waiting for the copy, and let go
at once, so that the loader may write there while the copy still waits: torch's device is kept busy
with matrix products in front of it. All values of a sample are its index, and what arrived is
looked at for the lowest and the highest value of each row. How many batches lay where an earlier
one had lain is counted as well: where none did, nothing was tried.

Then the runs of `pinned` are played with ``pin_memory``, from every kind of source that torch can
hold: each tensor must be page-locked, and what arrives must come to what is written down.

With ``--planted`` page-locked memory comes from a pool of the loader's own, which does not know of
copies: that must be seen, so the exit code is to be 1.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pinned

from threadloader import Loader, buffers
from threadloader.adapters import torch_pin

from . import versions
from .cases import some

SAMPLES = 512

LOOK = 16
"""Batches on the device between two looks at them."""


class Way(NamedTuple):
    """A way to the device.

    Attributes:
        name: of it.
        pinned: whether the loader pins.
        send: batch -> its copy on the device, which may not have been made yet.
        sides: copy -> lowest and highest value of each row, as numpy arrays.
    """

    name: str
    pinned: bool
    send: Callable[[Any], Any]
    sides: Callable[[Any], tuple[Any, Any]]


def ways_of_torch(torch: Any) -> Iterator[Way]:
    """Give those of torch; matrix products stand before every fourth copy."""
    square = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    sent = Counter[str]()

    def busy() -> None:
        sent["batches"] += 1
        for _ in range(8 if sent["batches"] % 4 == 0 else 0):
            square @ square

    def at_once(batch: Any) -> Any:
        busy()
        return torch.as_tensor(batch).to("cuda", non_blocking=True)

    def in_parts(batch: Any) -> Any:
        """Views of the batch, which itself is let go."""
        busy()
        parts = [part.to("cuda", non_blocking=True) for part in batch[:].split(5)]
        return torch.cat(parts)

    beside = torch.cuda.Stream()

    def on_a_stream(batch: Any) -> Any:
        with torch.cuda.stream(beside):
            copy = at_once(batch)
        torch.cuda.current_stream().wait_stream(beside)
        copy.record_stream(torch.cuda.current_stream())
        return copy

    def sides(copy: Any) -> tuple[Any, Any]:
        return copy.amin(1).cpu().numpy(), copy.amax(1).cpu().numpy()

    yield Way("torch, pinned", True, at_once, sides)
    yield Way("torch, pinned, in parts", True, in_parts, sides)
    yield Way("torch, pinned, on a stream of its own", True, on_a_stream, sides)
    yield Way("torch, arrays", False, at_once, sides)


def ways_of_jax() -> Iterator[Way]:
    """Give those of JAX, if it sees a device."""
    try:
        import jax
    except ImportError:
        return
    if jax.default_backend() != "gpu":
        return

    def sides(copy: Any) -> tuple[Any, Any]:
        return np.asarray(copy.min(1)), np.asarray(copy.max(1))

    yield Way("jax.device_put", False, jax.device_put, sides)
    yield Way("jax.numpy.asarray", False, jax.numpy.asarray, sides)


def ways_of_cupy() -> Iterator[Way]:
    """Give those of CuPy."""
    try:
        import cupy
    except ImportError:
        return

    def sides(copy: Any) -> tuple[Any, Any]:
        return copy.min(1).get(), copy.max(1).get()

    beside = cupy.cuda.Stream(non_blocking=True)

    def on_a_stream(batch: Any) -> Any:
        copy = cupy.empty(batch.shape, batch.dtype)
        with beside:
            copy.set(batch)
        cupy.cuda.get_current_stream().wait_event(beside.record())
        return copy

    yield Way("cupy.asarray", False, cupy.asarray, sides)
    yield Way("cupy.ndarray.set on a stream of its own", False, on_a_stream, sides)


def ways_of_tinygrad() -> Iterator[Way]:
    """Give that of tinygrad, which copies when a tensor is asked for, if it computes by CUDA."""
    try:
        from tinygrad import Device, Tensor
    except ImportError:
        return
    if Device.DEFAULT != "CUDA":
        return

    def sides(copy: Any) -> tuple[Any, Any]:
        return copy.min(1).numpy(), copy.max(1).numpy()

    yield Way("tinygrad.Tensor", False, Tensor, sides)
    yield Way("tinygrad.Tensor, realized", False, lambda batch: Tensor(batch).realize(), sides)


class Data(NamedTuple):
    """What is sent.

    Attributes:
        name: of it.
        rows: of a batch.
        width: float32 values of a row.
        file: whether it is read from a file.
    """

    name: str
    rows: int
    width: int
    file: bool


DATA = (Data("array", 16, 1 << 17, False), Data("npy file", 4, 1 << 14, True))


def run(way: Way, data: Data, count: int, told: Counter[str]) -> int:
    """Send batches; give how many arrived as something else.

    Args:
        way: how.
        data: what.
        count: how many batches at least.
        told: is counted up.
    """
    x = np.repeat(np.arange(SAMPLES, dtype=np.float32)[:, None], data.width, 1)
    config: dict[str, Any] = {"batch_size": data.rows, "num_workers": 4, "pin_memory": way.pinned}
    with tempfile.TemporaryDirectory() as folder:
        if not data.file:
            return _sent(way, Loader(config, x), count, told)
        path = Path(folder) / "x.npy"
        np.save(path, x)
        source = {"type": "npy", "path": str(path)}
        return _sent(way, Loader({**config, "source": source}), count, told)


def _sent(way: Way, loader: Loader, count: int, told: Counter[str]) -> int:
    wrong, sent, addresses, waiting = 0, 0, set[int](), []
    with loader as batches:
        while sent < count:
            for batch in batches:
                address = batch.data_ptr() if way.pinned else batch.ctypes.data
                told["where an earlier one had lain"] += address in addresses
                addresses.add(address)
                waiting.append((batches.info.indices, way.send(batch)))
                del batch
                sent += 1
                if len(waiting) == LOOK:
                    wrong += sum(_differs(way, *each) for each in waiting)
                    waiting.clear()
    told["batches"] += sent
    return wrong + sum(_differs(way, *each) for each in waiting)


def _differs(way: Way, indices: Any, copy: Any) -> bool:
    lowest, highest = way.sides(copy)
    return not (np.array_equal(lowest, indices) and np.array_equal(highest, indices))


def runs(torch: Any, numbers: range) -> list[str]:
    """Play runs of `pinned` with ``pin_memory``, by what arrives on the device of each batch.

    Their npy files are big-endian, which torch has not: those runs are left as they are.

    Args:
        torch: the module.
        numbers: of the runs.

    Returns:
        A text for each that did not come to what is written down.
    """
    digest, drawn = pinned.digest, pinned.drawn

    def arrived(part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            # torch calls a tensor without values not page-locked.
            pageable = part.numel() and not part.is_pinned()
            return "pageable" if pageable else part.to("cuda", non_blocking=True).cpu().numpy()
        if isinstance(part, np.ndarray) and part.dtype.kind in "biufc":
            return "an array"
        if isinstance(part, dict):
            return {name: arrived(value) for name, value in part.items()}
        if isinstance(part, list | tuple):
            return type(part)(map(arrived, part))
        return part

    def pinning(number: int) -> pinned.Run:
        run = drawn(number)
        pins = run.config["pin_memory"] = "npy" not in run.kind
        pinned.digest = (lambda batch: digest(arrived(batch))) if pins else digest
        return run

    pinned.drawn = pinning
    try:
        with tempfile.TemporaryDirectory() as folder:
            return versions.drifted(numbers, 1, Path(folder))
    finally:
        pinned.digest, pinned.drawn = digest, drawn


def plant(torch: Any) -> None:
    """Have page-locked memory used again as soon as nobody holds it."""

    def init(block: Any, size: int) -> None:
        memory = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
        block.region = memory.numpy()
        block.interface = block.region.__array_interface__

    pool = buffers.Pool(1 << 30)
    buffers._Block.__init__ = init  # type: ignore[method-assign]
    torch_pin._empty = lambda torch, shape, dtype: pool.empty(shape, dtype)
    # What is delivered has a storage of its own, of whose copies torch does not know.
    torch_pin._held = lambda torch, array: torch.from_numpy(array)


def tried(ways: Iterable[Way], count: int) -> bool:
    """Send batches in each way, and tell of it; whether all was good, and anything was tried."""
    good = True
    for way, data in itertools.product(ways, DATA):
        began, told = time.monotonic(), Counter[str]()
        wrong = run(way, data, count, told)
        numbers = ", ".join(f"{told[what]:,} {what}" for what in sorted(told))
        took = time.monotonic() - began
        print(f"{way.name}, {data.name}: {wrong} wrong; {numbers}; {took:.1f} s", flush=True)
        good &= wrong == 0 and told["where an earlier one had lain"] > 0
    return good


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("campaigns.device", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=some, default=1500, help="batches a way (default: 1500)")
    parser.add_argument("--planted", action="store_true", help="with a bug, which must be seen")
    options = parser.parse_args(args)
    try:
        import torch
    except ImportError as error:
        print(f"device: expected torch with a CUDA device, got none ({error})", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print(f"device: torch {torch.__version__} sees no CUDA device", file=sys.stderr)
        return 2
    if options.planted:
        plant(torch)
        good = tried((way for way in ways_of_torch(torch) if way.pinned), options.count)
    else:
        ways = itertools.chain(ways_of_torch(torch), ways_of_jax(), ways_of_cupy())
        good = tried(ways, options.count)
        drifted = runs(torch, range(pinned.RUNS))
        print("\n".join(drifted), end="\n" if drifted else "", file=sys.stderr)
        print(f"the runs of versions, pinned: {len(drifted)} drifted of {pinned.RUNS}", flush=True)
        # Last: it changes CUDA's context, in which torch aborts when page-locked memory is freed.
        good = tried(ways_of_tinygrad(), options.count) and good and not drifted
    print(f"device: {'nothing wrong' if good else 'FAILED'}, {torch.cuda.get_device_name()}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

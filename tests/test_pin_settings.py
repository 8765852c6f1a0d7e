"""Where torch cannot pin, `true` refuses and `"auto"` goes on with numpy; `false` never asks it.

Of the real torch, too, where it is declared.
"""

import signal
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from frameworks import framework
from page_locked import load

from threadloader import ConfigError


def missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    return "no torch"


def without_cuda(monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "torch 0.fake without a CUDA device"


def broken(monkeypatch):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torch":
                raise OSError("libtorch.so: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    return "a torch that does not work (libtorch.so: cannot open"


def lacking_a_library(monkeypatch):
    """Python says ImportError to that, and pip that torch is there."""
    monkeypatch.setitem(sys.modules, "torch", Lacking("torch"))
    return "a torch that does not work (libcudart.so: cannot open"


class Lacking(ModuleType):
    def __getattr__(self, name):
        raise ImportError("libcudart.so: cannot open shared object file")


def no_torch_at_all(monkeypatch):
    """A folder of that name is enough for an import."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    return "a torch that does not work (module 'torch' has no attribute 'cuda')"


def at_odds_with_its_driver(monkeypatch):
    def is_available():
        raise RuntimeError("driver too old")

    cuda = SimpleNamespace(is_available=is_available)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "a torch that does not work (driver too old)"


def built_for_another_numpy(monkeypatch):
    def from_numpy(array):
        raise RuntimeError("Numpy is not available")

    cuda = SimpleNamespace(is_available=lambda: True)
    fake = SimpleNamespace(__version__="0.fake", cuda=cuda, from_numpy=from_numpy)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return "a torch that does not work (Numpy is not available)"


def forked(monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: True, _is_in_bad_fork=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "a fork of a process that has used CUDA"


def forked_without_cuda(monkeypatch):
    """The parent has asked whether there is a device, and torch does not know forks from uses."""
    cuda = SimpleNamespace(is_available=lambda: False, _is_in_bad_fork=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "torch 0.fake without a CUDA device"


HOW = [
    missing,
    without_cuda,
    broken,
    lacking_a_library,
    no_torch_at_all,
    at_odds_with_its_driver,
    built_for_another_numpy,
    forked,
    forked_without_cuda,
]


@pytest.mark.parametrize("how", HOW)
def test_true_refuses_before_any_thread_what_it_cannot_do(monkeypatch, how):
    """It names the option, what is missing, and what to do."""
    text = how(monkeypatch)
    loader = load(range(4))
    monkeypatch.setattr(loader, "_runtime", None)  # nothing could be started with it
    with pytest.raises(ConfigError, match="/pin_memory: expected torch with a CUDA") as caught:
        loader.__enter__()
    assert text in str(caught.value)
    assert 'write "auto"' in str(caught.value)


def test_a_fork_is_told_how_to_start_the_process(monkeypatch):
    forked(monkeypatch)
    with pytest.raises(ConfigError, match="start the process by 'spawn' or 'forkserver', or write"):
        load(range(4)).__enter__()


@pytest.mark.parametrize("how", HOW)
def test_auto_goes_on_with_numpy_and_the_stats_say_so(monkeypatch, how):
    text = how(monkeypatch)
    with load(np.arange(4), "auto") as batches:
        assert [0, 1, 2, 3] == next(iter(batches)).tolist()
        assert text in batches.stats().not_pinned
        assert f"not pinned: {text}" in str(batches.stats())


@pytest.mark.parametrize("pin", [True, "auto"])
def test_what_a_signal_handler_raises_while_torch_is_looked_at_is_no_fault_of_torch(
    monkeypatch, rung, pin
):
    """Importing it takes seconds, in which a job may come to its deadline."""

    def is_available():
        signal.raise_signal(signal.SIGINT)

    cuda = SimpleNamespace(is_available=is_available)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    with pytest.raises(TimeoutError, match="rung"), load(range(4), pin):
        pass


def test_without_the_option_torch_is_not_touched(monkeypatch):
    broken(monkeypatch)
    with load(np.arange(4), False) as batches:
        assert [0, 1, 2, 3] == next(iter(batches)).tolist()
        assert "" == batches.stats().not_pinned


def test_a_real_torch_does_what_it_can_here():
    """With CUDA a pinned tensor; without it, what the two settings promise."""
    torch = framework("torch")
    if torch.cuda.is_available():
        with load({"x": np.arange(4.0)}) as batches:
            batch = next(iter(batches))
        assert batch["x"].is_pinned()
        assert [0.0, 1.0, 2.0, 3.0] == batch["x"].tolist()
        return
    with pytest.raises(ConfigError, match="without a CUDA device"), load(np.arange(4)):
        pass
    with load(np.arange(4), "auto") as batches:
        assert isinstance(next(iter(batches)), np.ndarray)

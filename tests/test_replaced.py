"""`Loader.replace`, and copies of a loader: by `copy`, and by pickle for another process."""

import copy
import json
import pickle

import numpy as np
import pytest

from threadloader import ConfigError, Loader, LoaderConfig, per_thread

SAMPLER = {"type": "subset", "indices": [3, 1]}
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda it: pickle.loads(pickle.dumps(it)),
}

every_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


def double(sample):
    """Give what pickle finds by its name."""
    return sample * 2


class Rows:
    """An object that a factory opens."""

    def __init__(self):
        self.closed = False

    def __len__(self):
        return 4

    def __getitem__(self, index):
        assert not self.closed
        return index

    def close(self):
        self.closed = True


def lists(loader):
    """Give the batches of an epoch as lists."""
    with loader as batches:
        return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("kind", [dict, LoaderConfig])
def test_shuffle_follows_a_sampler_that_is_replaced(kind):
    source = np.arange(4)
    sampled = Loader(kind(), source).replace(sampler=SAMPLER)
    assert [[3, 1]] == lists(sampled)
    assert [False, True] == [sampled.config.shuffle, sampled.replace(sampler=None).config.shuffle]
    assert Loader(kind(sampler=SAMPLER), source).replace(sampler=None).config.shuffle


def test_shuffle_that_the_config_has_stays_when_a_sampler_is_replaced():
    source = np.arange(4)
    unshuffled = Loader({"sampler": SAMPLER, "shuffle": False}, source).replace(sampler=None)
    assert not unshuffled.config.shuffle
    with pytest.raises(ConfigError, match="/shuffle: expected false or nothing"):
        Loader({"shuffle": True}, source).replace(sampler=SAMPLER)


@pytest.mark.parametrize(
    ("option", "given", "new"),
    [
        ("source", np.arange(4), {"type": "text", "path": "x"}),
        ("transform", double, None),
        ("collate", len, {"type": "pad"}),
        ("sampler", [0, 1], SAMPLER),
    ],
)
def test_an_option_given_in_code_is_not_replaced_by_one_that_it_would_hide(option, given, new):
    loader = Loader({}, **{"source": np.arange(4), option: given})
    with pytest.raises(ConfigError, match=f"/{option}: .* since {option}=... was given in code"):
        loader.replace(**{option: new})


def test_a_misspelt_option_is_told_as_one_of_the_config():
    with pytest.raises(ConfigError, match=r'/batch_sze: .* did you mean "batch_size"'):
        Loader({}, np.arange(4)).replace(batch_sze=2)


@pytest.mark.parametrize(
    "given",
    [{}, {"resume": None, "skip_steps": 0}, {"skip_steps": 2, "unknown": "ignore"}],
    ids=str,
)
@pytest.mark.parametrize(
    ("option", "value"), {"resume": "a", "skip_steps": 5, "unknown": "a"}.items()
)
def test_an_argument_of_a_loader_is_no_option_of_its_config(given, option, value):
    with pytest.raises(ConfigError, match=f"/{option}: expected an option of the config, which"):
        Loader({}, np.arange(4), **given).replace(**{option: value})


def test_for_a_key_of_your_own_the_whole_call_is_named_since_replace_lets_none_through():
    with pytest.raises(ConfigError, match=r'; Loader\(config, unknown="ignore"\) .* lets keys of'):
        Loader({}, np.arange(4)).replace(lr="ignore")


def test_a_loader_of_a_subclass_stays_one():
    """As a copy of it does; what it has besides is for its own methods to bring along."""

    class Own(Loader):
        pass

    assert type(Own({"batch_size": 2}, range(4)).replace(batch_size=1)) is Own


def test_keys_that_a_loader_let_through_do_not_stop_a_replacement():
    config = {"seed": 3, "optimizer": "sgd"}
    replaced = Loader(config, np.arange(4), unknown="ignore").replace(batch_size=2)
    assert (2, 3) == (replaced.config.batch_size, replaced.config.seed)


@every_copy
def test_a_copy_is_a_loader_of_its_own(copied):
    """It has all that was given, and is entered beside the one it was made of, open or not."""
    source = np.arange(8)
    shard = {"index": 1, "count": 2}
    loader = Loader({"batch_size": 2}, source, transform=double, sampler=[5, 4, 3, 2], shard=shard)
    with loader as batches:
        assert [[6, 4]] == lists(copied(loader))
        assert [[6, 4]] == [batch.tolist() for batch in batches]


@every_copy
@pytest.mark.parametrize("workers", [0, 2])
def test_a_copy_of_a_loader_over_per_thread_opens_objects_of_its_own(copied, workers):
    """Also one that is made while the other is open: it takes and closes nothing of that."""
    loader = Loader({"shuffle": False, "num_workers": workers}, per_thread(Rows))
    with loader as batches:
        assert [[0, 1, 2, 3]] == [batch.tolist() for batch in batches]
        assert [[0, 1, 2, 3]] == lists(copied(loader))
        assert [[0, 1, 2, 3]] == [batch.tolist() for batch in batches]
    assert [[0, 1, 2, 3]] == lists(copied(loader))


@every_copy
def test_a_copy_of_per_thread_makes_its_objects_by_the_same_factory(copied):
    source = per_thread(Rows)
    before = source.mine()
    another = copied(source)
    source.close()
    assert (True, False) == (before.closed, another.mine().closed)
    assert 2 == another[2]
    another.close()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_of_pickle_has_a_loader(protocol):
    loader = Loader({"shuffle": False}, np.arange(4))
    assert [[0, 1, 2, 3]] == lists(pickle.loads(pickle.dumps(loader, protocol)))


@every_copy
def test_paths_of_a_copy_start_at_the_folder_of_the_config(copied, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    np.save(tmp_path / "there" / "x.npy", np.arange(4))
    file = tmp_path / "there" / "train.json"
    file.write_text(json.dumps({"source": {"type": "npy", "path": "x.npy"}, "shuffle": False}))
    loader = Loader(file)
    file.unlink()
    monkeypatch.chdir(tmp_path)
    assert [[0, 1, 2, 3]] == lists(copied(loader))


def test_what_cannot_be_pickled_says_so_itself():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(Loader({}, np.arange(4), transform=lambda sample: sample))


@every_copy
def test_what_is_live_refuses_to_be_copied(copied):
    with Loader({}, np.arange(4)) as batches:
        for live in (batches, iter(batches), batches.epochs()):
            with pytest.raises(TypeError, match="copy or pickle the Loader"):
                copied(live)


def test_a_spawned_process_enters_the_loader_that_it_is_given(run_child):
    done = run_child(
        "import multiprocessing\n"
        "import numpy as np\n"
        "from threadloader import Loader\n"
        "def enter(loader):\n"
        "    with loader as batches:\n"
        "        print([batch.tolist() for batch in batches], flush=True)\n"
        "if __name__ == '__main__':\n"
        "    loader = Loader({'batch_size': 2, 'shuffle': False}, np.arange(4))\n"
        "    with loader:\n"
        "        spawn = multiprocessing.get_context('spawn')\n"
        "        child = spawn.Process(target=enter, args=(loader,))\n"
        "        child.start()\n"
        "        child.join()\n"
    )
    assert ("[[0, 1], [2, 3]]\n", "") == (done.stdout, done.stderr)

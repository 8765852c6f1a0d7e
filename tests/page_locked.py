"""A loader in order, whose batches come in page-locked memory unless another `pin` is given."""

from threadloader import Loader


def load(source, pin=True, collate=None, transform=None, **config):
    config = {"shuffle": False, "pin_memory": pin, **config}
    return Loader(config, source, collate=collate, transform=transform)

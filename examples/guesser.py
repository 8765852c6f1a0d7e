"""A small NumPy model that guesses a token from those around it, shared by some examples."""

from collections.abc import Sequence

import numpy as np

IGNORED = -100  # the label of a place where nothing is to be guessed


class Guesser:
    """Features of the tokens around a place, one hidden layer, chances of each token.

    Trained by Adam: D. Kingma, J. Ba, *A Method for Stochastic Optimization*, 2015.

    Args:
        vocabulary: how many tokens there are.
        offsets: where it looks, from the place that it guesses: (-2, -1, 1, 2) is the
            two tokens before and the two after it.
        rng: what the first weights are drawn from.
        rate: how far a step goes.
        features: numbers by which it knows a token.
        hidden: width of the hidden layer.
    """

    def __init__(
        self,
        vocabulary: int,
        offsets: Sequence[int],
        rng: np.random.Generator,
        *,
        rate: float = 0.003,
        features: int = 16,
        hidden: int = 128,
    ) -> None:
        self.offsets = np.array(offsets)
        self.rate = rate
        shapes = [(vocabulary, features), (len(offsets) * features, hidden), (hidden, vocabulary)]
        self.weights = [
            rng.standard_normal(shape, dtype=np.float32) * np.float32(shape[0] ** -0.5)
            for shape in shapes
        ]
        self.means = [np.zeros_like(weight) for weight in self.weights]
        self.squares = [np.zeros_like(weight) for weight in self.weights]
        self.steps = 0

    def step(self, tokens: np.ndarray, labels: np.ndarray) -> tuple[float, int]:
        """Learns from one batch.

        Args:
            tokens: what it sees, ``(batch, length)`` of integers; beyond the ends it sees 0.
            labels: what it is to guess, like ``tokens``; -100 where nothing.

        Returns:
            The loss in nats, summed, and how many labels it is the sum of.
        """
        rows, columns = np.nonzero(labels != IGNORED)
        if not len(rows):
            return 0.0, 0
        features, first, second = self.weights
        before, behind = max(0, -self.offsets.min()), max(0, self.offsets.max())
        framed = np.pad(tokens, ((0, 0), (before, behind)))
        seen = framed[rows[:, None], columns[:, None] + before + self.offsets]
        inputs = features[seen].reshape(len(seen), -1)
        layer = np.maximum(inputs @ first, 0)
        logits = layer @ second
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        places, wanted = np.arange(len(rows)), labels[rows, columns]
        loss = -np.log(np.maximum(chances[places, wanted], 1e-30)).sum(dtype=np.float64)

        chances[places, wanted] -= 1
        slope = chances / np.float32(len(rows))
        below = (slope @ second.T) * (layer > 0)
        # Each feature of each token seen gets the sum of the slopes of its places.
        spots = seen[:, :, None].astype(np.intp) * features.shape[1] + np.arange(features.shape[1])
        sums = np.bincount(spots.ravel(), (below @ first.T).ravel(), minlength=features.size)
        self._move([sums.reshape(features.shape), inputs.T @ below, layer.T @ slope])
        return float(loss), len(rows)

    def _move(self, slopes: list[np.ndarray]) -> None:
        self.steps += 1
        rate = np.float32(self.rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps))
        for weight, mean, square, slope in zip(
            self.weights, self.means, self.squares, slopes, strict=True
        ):
            mean += np.float32(0.1) * (slope - mean)
            square += np.float32(0.001) * (slope * slope - square)
            weight -= rate * mean / (np.sqrt(square) + np.float32(1e-8))

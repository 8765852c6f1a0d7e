"""How far some shuffles are from true ones, as scores, of which each is standard normal for those.

True shuffles are permutations drawn from all of them with equal chance, independently.

- A chi-square becomes a score by the cube root of E. Wilson and M. Hilferty, "The distribution of
  chi-square" (1931). Both sides count: what is too even is not chance either.
- A count that is Poisson for true shuffles becomes one as a chi-square: P(Poisson(m) <= k) is
  P(chi-square of 2k + 2 degrees > 2m), and 2k + 1 stands between k and k - 1.
- *Bias* asks what all shuffles have in common: their tables, or standard scores, added up.
  *Spread* asks whether each by itself is irregular enough, and not too much: their chi-squares
  added up. Structure that differs from shuffle to shuffle is seen in the spread alone.
"""

import itertools
import math

import numpy as np

CELLS, BINS = 16, 32

Scores = dict[str, float]


def counted(values: np.ndarray, length: int = 0) -> np.ndarray:
    """How often each of 0 .. length - 1 comes, or of 0 .. the largest.

    numpy counts no int64 where a pointer has 32 bits.
    """
    return np.bincount(values.reshape(-1).astype(np.intp), minlength=length)


def of_chi_square(value: float, degrees: int) -> float:
    """The score of a chi-square."""
    part = 2 / (9 * degrees)
    return ((value / degrees) ** (1 / 3) - 1 + part) / math.sqrt(part)


def of_count(count: int, mean: float) -> float:
    """The score of a count that is Poisson of this mean."""
    return -of_chi_square(2 * mean, 2 * count + 1)


def of_counts(counts: np.ndarray, expected: np.ndarray | float, degrees: int) -> float:
    """The score of counts by their chi-square."""
    return of_chi_square(chi_square(counts, expected), degrees)


def chi_square(counts: np.ndarray, expected: np.ndarray | float) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def of_tables(
    name: str, tables: list[np.ndarray], expected: np.ndarray, degrees: int, factor: float = 1.0
) -> Scores:
    """Bias and spread of tables of counts, one of each shuffle, with the same expected counts.

    Args:
        factor: brings a chi-square of these tables to a mean of `degrees`.
    """
    each = sum(chi_square(table, expected) for table in tables)
    together = chi_square(sum(tables), len(tables) * expected)
    return {
        f"{name} bias": of_chi_square(factor * together, degrees),
        f"{name} spread": of_chi_square(factor * each, len(tables) * degrees),
    }


def of_scores(name: str, values: list[float]) -> Scores:
    """Bias and spread of standard scores, one of each shuffle."""
    z = np.array(values)
    return {
        f"{name} bias": float(z.sum() / math.sqrt(len(z))),
        f"{name} spread": of_chi_square(float((z**2).sum()), len(z)),
    }


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of two permutations of 0 .. n - 1, whose mean and variance are known."""
    n = len(one)
    middle, variance = (n - 1) / 2, (n * n - 1) / 12
    return float(((one - middle) * (other - middle)).mean()) / variance


def places(shuffles: list[np.ndarray]) -> Scores:
    """Where samples go: tables of position by value, by high digits and low ones; fixed points.

    The margins of such a table are fixed: its chi-square has (CELLS - 1)**2 degrees, and a mean
    larger by n / (n - 1). The correlation has mean 0 and variance 1 / (n - 1), exactly. The number
    of fixed points has the first n moments of Poisson(1).
    """
    n = len(shuffles[0])
    i = np.arange(n, dtype=np.int64)
    digits = {"high": i * CELLS // n, "low": i % CELLS}
    scores: Scores = {}
    for (here, at), (there, value) in itertools.product(digits.items(), repeat=2):
        expected = np.outer(counted(at), counted(value)).ravel() / n
        tables = [counted(at * CELLS + value[v], CELLS**2) for v in shuffles]
        degrees = (CELLS - 1) ** 2
        scores |= of_tables(f"{here} to {there}", tables, expected, degrees, (n - 1) / n)
    r = [correlation(i, v) * math.sqrt(n - 1) for v in shuffles]
    fixed = sum(int(np.count_nonzero(v == i)) for v in shuffles)
    scores["fixed points"] = of_count(fixed, len(shuffles))
    return scores | of_scores("correlation", r)


def neighbours(shuffles: list[np.ndarray], lags: list[int]) -> Scores:
    """What stands next to what: differences, ascents, successors, serial correlation.

    The difference of two values, modulo n, is each of 1 .. n - 1 equally often, exactly. The
    number of ascents has mean (n - 1) / 2 and variance (n + 1) / 12, exactly (Eulerian numbers).
    The number of v that are followed by v + 1 has mean (n - 1) / n and tends to Poisson(1), so
    that of v followed by v - 1 (I. Kaplansky, "The asymptotic distribution of runs of consecutive
    elements", 1945). The serial correlation has mean -1 / (n - 1), and a variance near 1 / n.
    """
    n = len(shuffles[0])
    bins = np.arange(n - 1, dtype=np.int64) * BINS // (n - 1)  # of the differences 1 .. n - 1
    expected = counted(bins) * n / (n - 1)
    scores: Scores = {}
    for lag in lags:
        differences = [(np.roll(v, -lag) - v) % n for v in shuffles]
        tables = [counted(bins[each - 1], BINS) for each in differences]
        scores |= of_tables(f"lag {lag}", tables, expected, BINS - 1)
    up = [int(np.count_nonzero(np.diff(v) > 0)) for v in shuffles]
    scores |= of_scores("ascents", [(k - (n - 1) / 2) / math.sqrt((n + 1) / 12) for k in up])
    r = [(correlation(v, np.roll(v, -1)) + 1 / (n - 1)) * math.sqrt(n) for v in shuffles]
    scores |= of_scores("serial correlation", r)
    for name, step in (("successors", 1), ("predecessors", -1)):
        count = sum(int(np.count_nonzero(np.diff(v) == step)) for v in shuffles)
        scores[name] = of_count(count, len(shuffles) * (n - 1) / n)
    return scores

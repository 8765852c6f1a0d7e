"""What tests mask by, and what is masked, worked out token by token in Python's own integers."""

from splitmix import GOLDEN, mix

from threadloader.masking import IGNORED, mlm

VOCABULARY = 60
MASK = 3
SPECIAL = (0, 1, 2)
KEPT = (*SPECIAL, MASK)
ORDINARY = [token for token in range(VOCABULARY) if token not in KEPT]

HIDE = mlm(VOCABULARY, MASK, special=SPECIAL, field="ids", probability=0.5)


def number_of(key: int, position: int, place: int) -> int:
    """The number of the token at a place of the sample at a position: below 2**63."""
    seed = mix((position + key) % 2**64) ^ (key >> 64)
    shared = mix((seed + place // 8 * GOLDEN) % 2**64)
    byte = shared >> 8 * (place % 8) & 0xFF
    own = mix(shared ^ (place % 8) << 61) >> 9
    return byte << 55 | own


def replaced(token: int, number: int, probability: float) -> tuple[int, int]:
    """What a token of this number becomes, and its label."""
    chosen = round(probability * 2**63)
    tenth = (chosen + 5) // 10
    if number >= chosen or token in KEPT:
        return token, IGNORED
    if number < tenth:
        return ORDINARY[number % len(ORDINARY)], token
    return (token if number < 2 * tenth else MASK), token


def masked(tokens: list[int], key: int, position: int, probability: float) -> list[tuple[int, int]]:
    """Tokens and labels of one sample."""
    return [
        replaced(token, number_of(key, position, place), probability)
        for place, token in enumerate(tokens)
    ]

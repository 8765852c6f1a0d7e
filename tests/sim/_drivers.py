"""Who goes on: the drivers of a schedule.

A driver is asked wherever two or more tasks could go on::

    choose(options, current, doing) -> number

`options` are the tasks' numbers, ascending; `current` is the one that runs, or None where it
cannot go on; `doing` is what it would do. The numbers chosen, one digit each, are the
*schedule*. A driver serves one schedule; `DepthFirst` serves all of its own, one after the
other.

Each but `DepthFirst` is told by one word of text, from which `driver` makes it again.
"""

import random

from ._failures import Diverged

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

STAYS = (0.0, 0.5, 0.8, 0.95)
"""How likely a random schedule lets the running task go on; each seed takes one. At 0 tasks
run in lockstep, at 0.95 one runs far ahead of the others: bugs hide in both."""


def written(choices):
    """Give choices as text."""
    return "".join(DIGITS[number] for number in choices)


APART = ("read the clock", "wait for the GIL")
"""Operations without effect on others, or from them: the clock stands while anybody can go on."""


class Replay:
    """The choices of a given schedule; behind its end, the running task goes on.

    Args:
        schedule: digits.
        exact: whether a choice that cannot be made is refused; otherwise it is passed over.
    """

    def __init__(self, schedule, exact=True):
        self._schedule = schedule
        self._exact = exact
        self._at = 0

    def __str__(self):
        return f"replay:{self._schedule}"

    def choose(self, options, current, doing):
        if self._at < len(self._schedule):
            number = DIGITS.index(self._schedule[self._at])
            self._at += 1
            if number in options:
                return number
            if self._exact:
                raise Diverged(f"the schedule has task {number} go on, but only {options} can")
        return options[0] if current is None else current


class Random:
    """Any task, as a seed says."""

    def __init__(self, seed):
        self._seed = seed
        self._random = random.Random(seed)
        self._stay = self._random.choice(STAYS)

    def __str__(self):
        return f"random:{self._seed}"

    def choose(self, options, current, doing):
        if current is not None and self._random.random() < self._stay:
            return current
        return options[int(self._random.random() * len(options))]


class Pct:
    """Priorities: of those that can, the highest task goes on; at `depth - 1` points it falls.

    A bug that needs d orderings to be so is found by a schedule of depth d with probability
    1 / (n * k**(d - 1)) at least, for n tasks and k steps. S. Burckhardt, P. Kothari, M.
    Musuvathi and S. Nagarakatte, "A randomized scheduler with probabilistic guarantees of
    finding bugs" (2010).

    Args:
        seed: of the priorities and points.
        depth: number of orderings, from 1.
        steps: about how many choices a schedule has; the points lie within them.
    """

    def __init__(self, seed, depth, steps):
        self._text = f"pct:{seed}:{depth}:{steps}"
        self._random = random.Random(seed)
        points = max(steps, depth)
        # The n-th point gives the priority n, below all that tasks begin with.
        drawn = self._random.sample(range(points), depth - 1)
        self._points = {at: number for number, at in enumerate(drawn)}
        self._priorities = {}
        self._at = 0

    def __str__(self):
        return self._text

    def choose(self, options, current, doing):
        priorities = self._priorities
        for number in options:
            if number not in priorities:
                priorities[number] = len(self._points) + self._random.random()
        lowered = self._points.get(self._at)
        if lowered is not None:
            priorities[max(options, key=priorities.__getitem__)] = lowered
        self._at += 1
        return max(options, key=priorities.__getitem__)


class DepthFirst:
    """All schedules with a bounded number of preemptions, one after the other.

    A preemption is a choice of another task while the running one could go on. Where it
    cannot, any other is chosen freely. M. Musuvathi and S. Qadeer, "Iterative context
    bounding for systematic testing of multithreaded programs" (2007).

    Before an operation of `APART` there is no preemption: it makes no difference to others
    whether it is done before what they do or behind it.

    Args:
        bound: preemptions of a schedule, at most.
    """

    def __init__(self, bound):
        self._bound = bound
        self._path = []
        self._at = 0

    def __str__(self):
        return f"depth-first:{self._bound}"

    def choose(self, options, current, doing):
        if doing in APART:
            return current
        path = self._path
        if self._at == len(path):
            order = options if current is None else [current, *(n for n in options if n != current)]
            path.append(_Choice(order, current is not None, path[-1].spent if path else 0))
        choice = path[self._at]
        self._at += 1
        if sorted(choice.order) != options:
            raise Diverged(f"{sorted(choice.order)} could go on here before, now {options} can")
        return choice.order[choice.taken]

    def advance(self):
        """Go on to the next schedule; False when all have been."""
        self._at = 0
        while self._path:
            if self._path[-1].another(self._bound):
                return True
            self._path.pop()
        return False


class _Choice:
    """One choice on the way down: the order in which its options are tried, and how far that is.

    Attributes:
        spent: preemptions up to and with this choice.
    """

    __slots__ = ("_preempting", "order", "spent", "taken")

    def __init__(self, order, preempting, spent):
        self.order = order
        self.taken = 0
        self.spent = spent
        self._preempting = preempting

    def another(self, bound):
        """Take the next option; False if there is none within the bound."""
        if self.taken + 1 == len(self.order):
            return False
        if self._preempting and not self.taken:
            if self.spent == bound:
                return False
            self.spent += 1
        self.taken += 1
        return True


def driver(text):
    """Make a driver from its text."""
    kind, *numbers = text.split(":")
    if kind == "replay":
        return Replay(numbers[0])
    return {"random": Random, "pct": Pct}[kind](*map(int, numbers))

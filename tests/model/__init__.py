"""The engine's protocol as a model: every state of it is looked at, and traces of the code.

The model
    _state        what a state holds
    _protocol     the threads, step by step: consumer, and whoever closes
    _feeder       and the feeder
    _worker       and the workers
    _promises     what must hold in every state, and which states may be the last
    _eager        steps whose order makes no difference
    _explore      all states of one size, breadth first

The code
    _seen         what the engine does on a simulated schedule, as steps of the protocol
    _follow       whether the protocol can do these
    _traces       random schedules, followed
"""

from ._explore import Explored, Wrong, explore
from ._follow import Refused, follow
from ._protocol import Protocol
from ._seen import Seen, watched
from ._state import Size
from ._traces import size, traces

__all__ = [
    "Explored",
    "Protocol",
    "Refused",
    "Seen",
    "Size",
    "Wrong",
    "explore",
    "follow",
    "size",
    "traces",
    "watched",
]

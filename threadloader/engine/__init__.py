"""Runs jobs in threads and gives back their results in job order.

::

    consumer --empty slots--> feeder --queue.Queue of slots--> workers
    consumer <----------- the same slots, filled, in the order it sent them

The consumer makes empty *slots*, keeps them in its own line and sends them to the
feeder: a slot is at once the permit to work one job further ahead and the place where
its result will be. The feeder gives each slot its job and puts it on the queue, once
for each worker that may help with it. Workers claim the job's parts, lowest first; the
last one to leave a slot fills it. So order and bound hold by construction.

Guarantees, which the tests cite by number:

G1. Results come in job order, whatever the threads did.
G2. At most `depth` jobs are begun and not yet taken by the consumer.
G3. Each slot is filled exactly once: with a value, an error, or the marker `ENDED`.
G4. No thread ever blocks in a put.
G5. A stop takes effect at once: no part is begun after it, and whoever waits is woken; at the
    end of its bound, if the iterator of jobs does not come back meanwhile.
G6. After `stop` no thread of ours lives; if a job never returns, `stop` returns within its
    bound and the log names the worker, what it was doing and its stack. A log that is stuck
    itself costs a second more, and one that fails nothing; so too in G11.
G7. Whatever a job or the iterator of jobs raises reaches the consumer at its place; of
    several failing parts of one job it is the lowest one's. No exception ends a thread.
G8. An interrupt anywhere in the consumer loses no result and leaves all of it closable:
    what it repeats is recognised by its number, and it touches no lock written in Python.
G9. No lock is held while a job's code runs.
G10. An idle thread keeps nothing of a job alive, and no result is left in a cycle.
G11. When nothing moves while the consumer waits, it is told within a limit who is at what.
G12. With `max_bytes`, a job is begun only if its result is the next one, or fits by estimate:
    what is ready at once exceeds the bound by one result a worker at most.

`_slots` is a job's place in the line and how workers share it, `_stream` the consumer's end,
`_threads` the feeder and the workers, `_own` whose a thread is, `_bound` what may be begun in
bytes, `_watch` who tells of a stall, `_saying` logs with a bound, `_engine` start and stop,
`_inline` the same face without threads, `_signals` lets pass what a signal handler has raised in
a job.
"""

from ._engine import Engine
from ._inline import Inline, InlineStream
from ._signals import attempt, from_signal
from ._slots import ENDED, Job, Outcome
from ._stream import Stream

__all__ = [
    "ENDED",
    "Engine",
    "Inline",
    "InlineStream",
    "Job",
    "Outcome",
    "Stream",
    "attempt",
    "from_signal",
]

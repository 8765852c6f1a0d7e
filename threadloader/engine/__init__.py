"""Runs jobs in threads and gives back their results in job order.

::

    consumer --empty slots--> feeder --queue.Queue of slots--> workers
    consumer <----------- the same slots, filled, in the order it sent them

The consumer makes empty *slots*, keeps them in its own line and sends them to the
feeder: a slot is at once the permit to work one job further ahead and the place where
its result will be. The feeder gives each slot its job and puts it on the queue, once
for each worker that may help with it. Workers claim the job's parts, lowest first; the
last one to leave a slot fills it, or leaves that to the feeder: where reads wait, it would come
late to its next one. So order and bound hold by construction.

Guarantees, which the tests cite by number:

G1. Results come in job order, whatever the threads did.
G2. At most `depth` jobs are begun and not yet taken by the consumer. A result that it has looked at
    and left, for a length or by an interrupt, counts as taken.
G3. A slot that somebody waits for is filled, and none is filled twice: with a value, an error, or
    the marker `ENDED`. Empty for good are only those of a cancelled stream, or behind an iterator
    of jobs that never comes back, for which nobody waits. None waits for that iterator whose
    job has been dealt.
G4. No thread ever blocks in a put.
G5. A stop takes effect at once: no part is begun after it, but for one that a worker was just
    about to begin, and whoever waits is woken. Where the iterator of jobs does not come back,
    they are woken when the bound of the stop has run out.
G6. After `stop` no thread of ours lives. If a job never returns, `stop` returns within its bound,
    and the log names the worker, what it was doing and its stack. A log that is stuck itself
    makes that a second longer; one that raises changes nothing. The same holds in G11.
G7. Whatever a job or the iterator of jobs raises reaches the consumer at its place; of several
    failing parts of one job it is the lowest one's. No exception of a job ends a worker; one in
    the threads' own lines outside of any job (out of memory, say) ends the engine, and whoever
    waits gets it, or another if no memory is left to tell of it.
G8. An interrupt anywhere in the consumer loses no result and leaves everything closable: what
    the consumer sends or asks for a second time is recognised by its number, and it touches no
    lock written in Python.
G9. No lock of the engine's is held while a job's code runs.
G10. An idle thread keeps nothing of a job alive, and no result is left in a reference cycle.
G11. When nothing has moved for `stall_seconds` while the consumer waits, the log or an exception
    says which thread is at what.
G12. With `max_bytes`, a job is begun only if its result is the next to be taken, or fits by
    estimate: what is ready at once exceeds the bound by one result a worker at most.

`_outcome` is what a job is and comes to, `_slots` its place in the line and how workers share it,
`_stream` the consumer's end, `_shared` what the threads share, `_feeder` and `_worker` what runs in
them, `_finishing` how a slot is filled whose parts are done, `_ownership` which engine a thread
belongs to, `_bound` what may be begun in bytes, `_watch` tells of a stall, `_joining` waits for the
workers' ends, `_log_thread` logs with a bound, `_engine` is start and stop, `_inline` the same face
without threads.
"""

from ._engine import FEWER, Engine
from ._inline import Inline, InlineStream
from ._log_thread import say
from ._outcome import ENDED, Outcome, attempt
from ._ownership import here
from ._stream import Stream

__all__ = [
    "ENDED",
    "FEWER",
    "Engine",
    "Inline",
    "InlineStream",
    "Outcome",
    "Stream",
    "attempt",
    "here",
    "say",
]

"""threadloader beside other loaders, each at every kind of work, each beside the limit.

``python3 tools/bench --suite`` runs it; docs/benchmarks.md tells how to read it. It belongs to
the repository and not to the package: nothing of it is installed.

    suite.py        the command
    works/          the kinds of work, one file each: what is loaded, the limit, what is told
    loaders/        the loaders, one file each, the only ones that use their package to load
    _plan.py        what is measured, and the command line that says so
    _protocol.py    what a work and a loader agree on: read this first
    _run.py         takes turns; `_process` starts a run in a process of its own, `_child` is there
    _measure.py     takes times; `_check` looks whether each sample came once, and right
    _synthetic.py   costs of a known size; `_whole` whole batches for loaders of samples
    _machine.py     memory of processes, sizes and versions
    _results.py     medians and shares of the limit; `_table` and `_picture` show them
"""

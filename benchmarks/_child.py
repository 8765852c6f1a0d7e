"""The process of one run: reads what to run on stdin, writes what came of it to a file.

Numpy and the package of the loader, which the command line names, are imported first of all,
so that what they import in turn is theirs: nothing else may be imported above.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # as `typing` has it, which is not imported yet either
    from collections.abc import Iterator
    from typing import Any

    from benchmarks._protocol import Job, Serve, Served


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no import yet
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return 0


def _imported(name: str) -> dict[str, float]:
    """Import a package and give what that took: ``seconds`` and ``bytes``."""
    before, began = _resident(), time.perf_counter()
    __import__(name)
    return {"seconds": time.perf_counter() - began, "bytes": _resident() - before}


def main(module: str) -> None:
    """Run what stdin says.

    Args:
        module: what the loader's users import; "" for none.
    """
    took, failed = {}, None
    try:
        took = {"numpy": _imported("numpy"), "imported": _imported(module) if module else {}}
    except BaseException as error:  # noqa: BLE001 - whatever a package raises is its answer
        failed = error
    import json

    spec = json.loads(sys.stdin.read())
    try:
        if failed is not None:
            raise failed  # noqa: TRY301 - it has its place among the others
        answer = _answer(spec, {**took, "module": module})
    except BaseException as error:  # noqa: BLE001 - as above
        kind = type(error).__name__
        told = f"{kind}: {error}" if str(error) else kind
        answer = {"cannot" if kind == "Cannot" else "error": told.removeprefix("Cannot: ")}
    with open(spec["answer"], "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        json.dump(answer, file)
    # A package may hang in its exit hooks, or have processes that do.
    os._exit(0)


def _answer(spec: "dict[str, Any]", found: "dict[str, Any]") -> "dict[str, Any]":
    if "installed" in spec:
        from benchmarks._machine import compiled, machine, version

        versions = {name: version(*pair) for name, pair in spec["installed"].items()}
        for _, module in spec["installed"].values():
            compiled(module)
        return {"machine": {**machine(), "numpy": version("numpy", "numpy")}, "versions": versions}
    from benchmarks.works import work

    if "cases" in spec:
        made = {name: work(name).cases(spec["quick"]) for name in spec["cases"]}
        return {"cases": {name: [vars(case) for case in cases] for name, cases in made.items()}}
    kind = work(spec["work"])
    options = {**spec["options"], **found, "package": spec["package"]}
    job = kind.job(options)
    if spec["loader"] == "limit":
        return {"numbers": kind.limit(job, options, spec["seconds"]), "how": kind.LIMIT}
    from benchmarks.loaders import loader

    said: list[str] = []
    serve = _noting(loader(spec["loader"]).serve, said)
    return {"numbers": kind.measure(job, serve, options, spec["seconds"]), "how": said[0]}


def _noting(serve: "Serve", said: list[str]) -> "Serve":
    """Note how a loader says that it serves."""
    from contextlib import contextmanager

    @contextmanager
    def noted(job: "Job") -> "Iterator[Served]":
        with serve(job) as served:
            said.append(served.how)
            yield served

    return noted


if __name__ == "__main__":
    main(sys.argv[1])

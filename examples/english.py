"""The English text of the examples: Python's own help topics, which every CPython carries."""

import os
import tempfile
from pathlib import Path


def english() -> str:
    """Gives some 460,000 characters of English; they differ a little between Python versions."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, unless it stands there already with this content.

    Raises:
        OSError: it cannot be written; the message says what to do then.
    """
    try:
        if path.exists() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two runs at once must not see half a file: it gets its name when it is whole.
        number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
            Path(temporary).replace(path)
        except BaseException:  # a full disk, say
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        told = f"cannot write {path.name}: {error}; name a --folder of your own"
        raise OSError(told) from error

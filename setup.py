"""Builds the package; all that is known about it stands in setup.cfg.

Two steps that setup.cfg cannot say. ``config_schema.json`` stands once in
the repository, at its root, where an editor finds it through ``"$schema"``. A
built package carries a copy beside its code. (A symbolic link would do the same
on Linux alone: a checkout on Windows turns it into a text file.) And what an
earlier build has left is removed first: pip leaves it in the checkout, and a
module that is gone since would be installed.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SCHEMA = "config_schema.json"


class BuildWithSchema(build_py):
    """`build_py` that begins anew, and also puts the schema beside the package's code."""

    def run(self) -> None:
        """Builds the modules, then copies the schema."""
        built = self._built_schema().parent
        in_place = built.resolve() == Path(self.get_package_dir("threadloader")).resolve()
        if not (self.editable_mode or in_place):
            shutil.rmtree(built, ignore_errors=True)
        super().run()
        if not self.editable_mode:  # an editable install reads the one at the root
            self.copy_file(SCHEMA, str(self._built_schema()), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Gives the files that `run` makes, as `build_py` does."""
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, str(self._built_schema())]

    def _built_schema(self) -> Path:
        return Path(self.build_lib, "threadloader", SCHEMA)


setup(cmdclass={"build_py": BuildWithSchema})

"""What a user installs: one small pure wheel that carries the schema of the repository's root."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email.parser import Parser
from pathlib import Path

import pytest

import threadloader

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_NAME = "config_schema.json"
SCHEMA = (ROOT / SCHEMA_NAME).read_bytes()
LIMIT_BYTES = 574_000
# Builds as pip does, with the setuptools of the test extra: nothing is fetched.
BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def run(*command: object, cwd: Path) -> str:
    """What a command prints; what went wrong is shown when it fails."""
    ran = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from a copy so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "checkout"
    shutil.copytree(
        ROOT,
        copy,
        ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__"),
    )
    run("-c", BUILD, "build_sdist", folder, cwd=copy)
    (archive,) = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel, built by pip from the unpacked source distribution."""
    run("-m", "tarfile", "-e", sdist, sdist.parent, cwd=sdist.parent)
    unpacked = sdist.parent / sdist.name.removesuffix(".tar.gz")
    build = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", sdist.parent]
    run("-m", "pip", "wheel", *build, unpacked, cwd=sdist.parent)
    (built,) = sdist.parent.glob("*.whl")
    return built


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one module."""
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", SCHEMA_NAME, "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "threadloader").mkdir()
    shutil.copy(ROOT / "threadloader" / "__init__.py", tmp_path / "threadloader")
    return tmp_path


def test_a_build_into_the_checkout_removes_nothing(checkout: Path) -> None:
    run("setup.py", "-q", "build_py", "--build-lib", ".", cwd=checkout)
    assert {"__init__.py", SCHEMA_NAME} == {it.name for it in (checkout / "threadloader").iterdir()}


def test_what_an_earlier_build_has_left_is_not_in_the_wheel(checkout: Path) -> None:
    """As a module that is gone since, in a checkout in which pip has built before."""
    tmp_path = checkout
    left = tmp_path / "build" / "lib" / "threadloader" / "gone.py"
    left.parent.mkdir(parents=True)
    left.touch()
    built = tmp_path / "wheels"
    run("-c", BUILD, "build_wheel", built, cwd=tmp_path)
    with zipfile.ZipFile(*built.glob("*.whl")) as archive:
        names = set(archive.namelist())
    assert "threadloader/__init__.py" in names
    assert "threadloader/gone.py" not in names


def test_the_source_distribution_is_complete(sdist: Path) -> None:
    """It carries the schema, the licence, the tests, the tools and the examples with their data."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"config_schema.json", "LICENSE", "setup.py", "tests/test_packaging.py"}
    expected |= {"benchmarks/suite.py", "benchmarks/works/arrays.py", "benchmarks/loaders/torch.py"}
    expected |= {"tools/test", "tools/_env.py", "examples/data/digits.npz", "examples/digits.json"}
    assert set() == expected - names


def test_the_wheel_is_small_and_for_every_machine(wheel: Path) -> None:
    """One wheel serves every Python 3, system and processor, and has at most 574,000 bytes."""
    assert f"threadloader-{threadloader.__version__}-py3-none-any.whl" == wheel.name
    assert wheel.stat().st_size <= LIMIT_BYTES


def test_the_wheel_carries_the_package_alone(wheel: Path) -> None:
    """Every module is in it, with types and schema, and neither tests nor examples."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert SCHEMA == archive.read("threadloader/config_schema.json")
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("threadloader/**/*.py")}
    assert modules | {"threadloader/py.typed", "threadloader/config_schema.json"} == names


def test_the_wheel_asks_for_numpy_alone(wheel: Path) -> None:
    """Python 3.11 or newer and numpy are all that it needs; everything else is an extra."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert (">=3.11", ["numpy>=1.23.2"]) == (metadata["Requires-Python"], needed)


def test_the_wheel_brings_the_command(wheel: Path) -> None:
    """Installing it brings the console command `threadloader`."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        points = ConfigParser()
        points.read_string(archive.read(name).decode())
    assert {"threadloader": "threadloader.cli:program"} == dict(points["console_scripts"])


def test_the_package_works_out_of_a_zip_archive(wheel: Path, tmp_path: Path) -> None:
    """As a wheel is one; the command, too."""
    (tmp_path / "c.json").write_text('{"source": {"type": "text", "path": "c.json"}}')
    script = (
        f"import sys; sys.path.insert(0, {str(wheel)!r})\n"
        "import threadloader, threadloader.cli\n"
        "with threadloader.Loader('c.json') as batches:\n"
        "    print(list(batches), '.whl' in threadloader.__file__, flush=True)\n"
        "sys.exit(threadloader.cli.main(['check', 'c.json']))"
    )
    line = (tmp_path / "c.json").read_text()
    assert f"{[[line]]} True\nc.json: OK\n" == run("-c", script, cwd=tmp_path)


def test_an_installed_package_works_by_itself(wheel: Path, tmp_path: Path) -> None:
    """Installed elsewhere, without the repository, it reads its own schema and loads batches."""
    target = ["--no-deps", "--no-index", "--target", tmp_path / "site"]
    run("-m", "pip", "install", "--quiet", *target, wheel, cwd=tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import threadloader\n"
        "from pathlib import Path\n"
        "here = Path(threadloader.__file__).parent\n"
        "with threadloader.Loader({'batch_size': 2}, source=list(range(4))) as batches:\n"
        "    print(len(list(batches)), here.parent.name, (here / 'config_schema.json').exists())\n"
    )
    assert "2 site True\n" == run("-c", script, cwd=tmp_path)

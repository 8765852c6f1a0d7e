"""The examples of masking, tokens, images and other libraries train, each in a child."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from frameworks import framework

from threadloader import Loader

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
WAIT = r"data wait \d+\.\d% \((excellent|good|fair|poor)\)"


def run(example: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs an example with one thread for its arithmetic, outside of any launcher."""
    launched = ("RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(launched)}
    paths = filter(None, [environment.pop("first", ""), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / example, *map(str, arguments)],
        env={
            **own,
            "PYTHONPATH": os.pathsep.join(paths),
            "OPENBLAS_NUM_THREADS": "1",
            "JAX_PLATFORMS": "cpu",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def printed(example: str, *arguments: object, **environment: str) -> str:
    """What an example prints, run to its end without a word on stderr."""
    ran = run(example, *arguments, **environment)
    assert (0, "") == (ran.returncode, ran.stderr)
    return ran.stdout


def numbers(pattern: str, output: str) -> list[float]:
    """The numbers that a pattern's group finds, without the commas of thousands."""
    return [float(found.replace(",", "")) for found in re.findall(pattern, output)]


def losses(output: str) -> list[float]:
    return numbers(r"loss (\d+\.\d+)", output)


# masked.py


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("masked [1]")  # in a pattern, one of a set


@pytest.fixture(scope="module")
def masked(sequences: Path) -> str:
    return printed("masked.py", "--epochs", 3, "--folder", sequences)


def test_hidden_words_are_learned_to_be_guessed(masked: str) -> None:
    """The loss falls from epoch to epoch, by more than one nat in all."""
    found = losses(masked)
    assert 3 == len(found)
    assert sorted(found, reverse=True) == found
    assert found[-1] < found[0] - 1


def test_the_masking_tells_what_was_hidden_and_waited_for(masked: str) -> None:
    """About 15% of the common words are hidden; rare words, which never are, do not count."""
    hidden = numbers(r"(\d+\.\d)% of [\d,]+ common words hidden", masked)
    assert 3 == len(hidden)
    assert all(14.5 < percent < 15.5 for percent in hidden)
    assert 3 == len(re.findall(WAIT, masked))


def test_the_masking_is_the_same_without_workers(masked: str, sequences: Path) -> None:
    """With --workers 0, for debugging, the losses are the same to the last digit."""
    output = printed("masked.py", "--epochs", 3, "--workers", 0, "--folder", sequences)
    assert losses(masked) == losses(output)


def test_the_masking_is_split_over_processes(masked: str, sequences: Path) -> None:
    """Two parts, one by --shard and one by a launcher's environment, make the whole."""
    arguments = ("--epochs", 1, "--folder", sequences)
    first = printed("masked.py", *arguments, "--shard", "0/2")
    second = printed("masked.py", *arguments, RANK="1", WORLD_SIZE="2")
    assert "shard 0 of 2\n" in first
    assert "shard 1 of 2, by the launcher's environment\n" in second
    words = [numbers(r"of ([\d,]+) common words", output)[0] for output in (masked, first, second)]
    # One sequence, of 128 words at most, may be there twice, so that the parts are as long.
    assert words[0] <= words[1] + words[2] <= words[0] + 128


def test_the_comparison_tells_both_times_and_their_ratio(sequences: Path) -> None:
    """How much faster four workers load where reads have to be waited for, the machine decides."""
    output = printed(
        "masked.py", "--compare", "--workers", 4, "--read-ms", 0.25, "--folder", sequences
    )
    assert "each read made to wait 0.25 ms" in output
    alone, together = numbers(r"num_workers +\d  (\d+\.\d+) s", output)
    (ratio,) = numbers(r"ratio: (\d+\.\d+)", output)
    assert abs(ratio - alone / together) < 0.1


# tokens.py, tokenizer.py, cpp_config.py


def test_token_shards_are_learned(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The loss falls by more than half a nat in 100 steps; the shards have their header.

    What is asked for beyond the config's epochs is told, and the last steps are as well.
    """
    folder = tmp_path_factory.mktemp("tokens [1]")  # in a pattern, one of a set
    output = printed("tokens.py", "--steps", 1000, "--folder", folder)
    found = re.search(r" (\d+) steps an epoch\n", output)
    assert found
    steps = 2 * int(found[1])  # of two epochs; how long the text is depends on the Python
    assert f"{steps} steps: the config has no more epochs\n" in output
    first, second, *_ = losses(output)
    assert second < first - 0.5
    assert output.splitlines()[-1].startswith(f"step {steps:4} ")
    assert -(-steps // 100) == len(re.findall(WAIT, output))
    shards = sorted(folder.glob("*.bin"))
    total = 0
    for shard in shards:
        content = shard.read_bytes()
        magic, version, count = (
            int.from_bytes(content[at : at + 4], "little") for at in range(0, 12, 4)
        )
        assert (20240520, 1, 1024 + 2 * count) == (magic, version, len(content))
        total += count
    assert 3 == len(shards)
    assert output.startswith(f"{total:,} tokens in 3 shards")


def test_a_text_is_tokenised_in_the_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The loss falls, and a token is more than two bytes long."""
    framework("tokenizers")
    folder = tmp_path_factory.mktemp("text [1]")  # in a pattern, one of a set
    output = printed("tokenizer.py", "--epochs", 2, "--folder", folder)
    first, second = losses(output)
    assert second < first
    assert all(size > 2 for size in numbers(r"(\d\.\d\d) bytes per token", output))


def test_the_config_of_a_trainer_in_cpp_loads_as_it_stands() -> None:
    """Loss, tokens per second, batch size, time and data wait with its band, as there."""
    output = printed("cpp_config.py", "--epochs", 1)
    line = (
        r"epoch 1 \| loss \d\.\d{4} \| [\d,]+ tokens/s \| batch size 64 \| time \d+\.\d\d s \| "
        + WAIT
        + "\n"
    )
    assert re.fullmatch(line, output)
    assert losses(output)[0] < 4


def test_a_misspelt_option_beside_those_of_the_trainer_is_an_error(tmp_path: Path) -> None:
    """What is one letter away from an option is not passed over; the line says where it stands."""
    text = (EXAMPLES / "cpp_trainer.json").read_text(encoding="utf-8")
    config = tmp_path / "trainer.json"
    config.write_text(text.replace("num_workers", "num_worker"), encoding="utf-8")
    ran = run("cpp_config.py", "--config", config)
    assert (1, "") == (ran.returncode, ran.stdout)
    assert 'did you mean "num_workers"?' in ran.stderr
    assert "/training/num_worker" in ran.stderr


@pytest.mark.parametrize(
    ("model", "rate", "told"),
    [
        ('{"context": 8, "features": 4, "hidden": 4}, /* , */', "0.003", ""),
        ("{},", "0.003", "KeyError('context')"),
        ('{"context": 0, "features": 4, "hidden": 4},', "0.003", "ValueError(\"{'context': 0, "),
        ('{"context": 8, "features": 4, "hidden": 4},', '"x"', "a learning rate of 'x'"),
    ],
)
def test_the_trainers_own_options_are_read_with_comments_and_missed_in_a_line(
    model: str, rate: str, told: str, tmp_path: Path
) -> None:
    config = tmp_path / "trainer.json"
    training = f'"training": {{"learning_rate": {rate}, "batch_size": 64, "num_epochs": 1}}'
    config.write_text(f'{{"model": {model} {training}}} // end', encoding="utf-8")
    ran = run("cpp_config.py", "--config", config)
    code, quiet, said = (1, ran.stdout, ran.stderr) if told else (0, ran.stderr, ran.stdout)
    assert (code, "") == (ran.returncode, quiet)
    assert ("expected the options of the model, got " if told else "epoch 1 ") in said
    assert told in said


# Other libraries


def test_scikit_learn_learns_from_batches() -> None:
    """partial_fit recognises at least 9 of 10 digits that it has not seen."""
    framework("sklearn")
    output = printed("partial_fit.py", "--epochs", 4)
    accuracies = numbers(r"test accuracy (\d\.\d{3})", output)
    assert 4 == len(accuracies)
    assert accuracies[-1] >= 0.9
    assert "Data wait: " in output


def test_images_of_a_folder_are_learned(tmp_path: Path) -> None:
    """Tiles of two photographs are told apart; the loss falls."""
    framework("sklearn")
    framework("PIL")
    output = printed("tiles.py", "--folder", tmp_path)
    assert "tiles of china, flower: 13 batches an epoch\n" in output
    found = losses(output)
    assert found[-1] < found[0] / 1.5
    assert numbers(r"test accuracy: (\d\.\d{3})", output)[0] >= 0.85
    tiles = {part: len(list((tmp_path / part).rglob("*.png"))) for part in ("train", "test")}
    assert {"train": 416, "test": 104} == tiles


def test_jax_learns_the_digits() -> None:
    """A jitted step takes the batches as they are; 9 of 10 digits are recognised."""
    framework("jax")
    output = printed("jax_digits.py", "--epochs", 6)
    found = losses(output)
    assert sorted(found, reverse=True) == found
    assert numbers(r"test accuracy (\d\.\d{3})", output)[-1] >= 0.9


@pytest.mark.parametrize(
    ("example", "module", "command"),
    [
        ("partial_fit", "sklearn", "pip install scikit-learn"),
        ("tiles", "PIL", "pip install scikit-learn pillow"),
        ("tokenizer", "tokenizers", "pip install tokenizers"),
        ("jax_digits", "jax", "pip install jax"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    example: str, module: str, command: str, tmp_path: Path
) -> None:
    """In one line, with exit code 1, and without a traceback."""
    fake = tmp_path / "first"
    fake.mkdir()
    (fake / f"{module}.py").write_text(f'raise ImportError("No module named {module!r}")\n')
    options = ["--folder", tmp_path / "data"] if example in ("tiles", "tokenizer") else []
    ran = run(f"{example}.py", *options, first=str(fake))
    assert (1, "") == (ran.returncode, ran.stdout)
    assert f"got: No module named '{module}'; {command}\n" in ran.stderr
    assert 1 == ran.stderr.count("\n")


# All of them

CONFIGS = [
    *("characters", "digits", "jax_digits", "masked", "partial_fit", "tiles", "tokenizer", "tokens")
]


@pytest.mark.parametrize("example", CONFIGS)
def test_the_configs_are_right_and_explained_by_an_editor(example: str) -> None:
    """Each config reads without a problem, and names the schema at the root."""
    config = EXAMPLES / f"{example}.json"
    assert Loader(config).config.source is not None
    (schema,) = re.findall(r'"\$schema": "(.*)"', config.read_text(encoding="utf-8"))
    assert (ROOT / "config_schema.json").samefile(EXAMPLES / schema)


@pytest.mark.parametrize(
    "arguments",
    [
        ("masked.py", "--epochs", "0"),
        ("masked.py", "--read-ms", "-1"),
        ("masked.py", "--compare", "--workers", "0"),
        ("masked.py", "--shard", "2/2"),
        ("masked.py", "--shard", "half"),
        ("tokens.py", "--steps", "0"),
        ("tokenizer.py", "--workers", "-1"),
        ("tiles.py", "--epochs", "0"),
        ("partial_fit.py", "--epochs", "0"),
        ("jax_digits.py", "--workers", "-1"),
        ("cpp_config.py", "--epochs", "0"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    """An argument out of bounds ends in a line that says what was expected, and exit code 2."""
    ran = run(*arguments)
    assert 2 == ran.returncode
    assert "expected " in ran.stderr.splitlines()[-1]


SCRIPTS = [path for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text("utf-8")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_says_how_to_install_what_is_missing(script: Path) -> None:
    """Without the packages of its Python, of which numpy is one."""
    command = [sys.executable, "-S", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (1, "") == (ran.returncode, ran.stdout)
    assert ran.stderr.startswith(f"{script.name}: No module named 'numpy'; install ")
    assert 1 == ran.stderr.count("\n")


def test_every_example_is_in_their_readme() -> None:
    """README.md of the examples has a line for each script that can be run."""
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scripts = {path.name for path in SCRIPTS}
    assert scripts == set(re.findall(r"^\| `python3 examples/(\w+\.py)", readme, re.MULTILINE))

"""Runs a command of threadloader in this process, and gives what came of it."""

from threadloader import cli


def calling(capsys, command):
    """Gives a function that runs a command with some arguments: exit code, stdout, stderr."""

    def call(*arguments):
        code = cli.main([command, *map(str, arguments)])
        got = capsys.readouterr()
        return code, got.out, got.err

    return call

"""What a call comes to, be it a result or an exception."""


def outcome(function, *args):
    """What a call gives, or the kind and text of what it raises."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)

"""Names of people out of paths: a home folder tells who somebody is, and an issue needs only what lies in it.

Surprise: accounts of machines and images (`ubuntu`, `runner`) name nobody and stay.
"""

import re

USER = "[user]"
"""What stands in place of a name."""

_SHARED = r"(?:ubuntu|ec2-user|runner|user|users|root|jovyan|centos|debian|admin|app|nobody|shared|public|default)"

HOME = re.compile(
    r"(?P<above>/(?:home|Users|users)/|[A-Za-z]:\\{1,2}Users\\{1,2})"
    rf"(?!{_SHARED}(?![\w.@-]))(?P<user>[\w.@-]+)"
)
"""``/home/alice``, ``/data/home/alice``, ``/Users/alice``, ``C:\\Users\\alice``."""


def hide_homes(text: str) -> str:
    """Return ``text`` with ``[user]`` for every name of a home folder.

    >>> hide_homes("ran in /home/alice/verl and /Users/bob/x")
    'ran in /home/[user]/verl and /Users/[user]/x'
    """
    return HOME.sub(lambda match: match["above"] + USER, text)

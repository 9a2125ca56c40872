"""Pages of real posts: they load nothing, every id is there once, and whatever a log says stays text."""

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from steptune.cli.main import main

FIXTURES = Path(__file__).parents[1] / "pasted" / "fixtures"
POSTS = ("V10", "N09", "K07")
HOSTILE = "</pre></td><script src=//x.y/z.js></script><img src=x onerror=alert(1)>&lt;b&gt;\"'><base href=//x.y>"
"""Closes what it may stand in, then tries to load and run."""

LOADING = frozenset({"src", "srcset", "href", "action", "data", "poster", "formaction", "background", "ping"})
"""Attributes with an address in them."""


class Page(HTMLParser):
    """Collects tags, ids, addresses, handlers and style."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name.removeprefix("xlink:") in LOADING:
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile_copy(post: Path, folder: Path) -> Path:
    """The post with hostile ends of its first lines, a hostile error, setting and file name."""
    lines = post.read_text(encoding="utf-8").splitlines()
    ends = [f"{line} {HOSTILE}" if number % 3 == 0 else line for number, line in enumerate(lines)]
    error = f'Traceback (most recent call last):\n  File "{HOSTILE}", line 1, in f\nRuntimeError: NaN {HOSTILE}\n'
    told = f"# fact: gpu={HOSTILE}\n# fact: actor.x={HOSTILE}\n"
    path = folder / "<img src=x onerror=alert(1)>.txt"
    path.write_text("\n".join([*lines, told, *ends, error]), encoding="utf-8")
    return path


def page_of(arguments: list[str]) -> str:
    main([*arguments, "--html", "page.html"])
    return Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", POSTS)
@pytest.mark.parametrize("is_hostile", [False, True])
@pytest.mark.parametrize("command", ["diagnose", "lint", "compare"])
def test_a_page_loads_nothing_and_holds_every_id_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, is_hostile: bool, command: str
) -> None:
    post = FIXTURES / f"{name}.txt"
    path = hostile_copy(post, tmp_path) if is_hostile else post
    document = page_of([command, str(path), *([str(post)] if command == "compare" else [])])
    page = Page(document)
    assert len(page.ids) == len(set(page.ids))
    assert all(address.startswith("#") and address[1:] in page.ids for address in page.addresses)
    assert page.handlers == []
    assert page.tags.isdisjoint(
        {"script", "link", "img", "iframe", "object", "embed", "form", "base", "audio", "video"}
    )
    assert "@import" not in document
    assert document.count("url(") == document.count("url(#")
    ElementTree.fromstring(document.removeprefix("<!DOCTYPE html>\n"))


def test_hostile_text_is_shown_as_it_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page(page_of(["diagnose", str(hostile_copy(FIXTURES / "V10.txt", tmp_path))]))
    assert "<img src=x onerror=alert(1)>" in "".join(page.text)

"""The HTML file: whole, well-formed, self-contained, and deaf to what strings try to make of it."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from report_sessions import HOSTILE, SESSIONS, full_session, hostile_session, killed_session, no_change_session

from steptune.report.build import Entry, build_report
from steptune.report.card import NotApplicable, Shown
from steptune.report.html import render_html
from steptune.report.markup import VOID, Markup, element, escaped, prose
from steptune.report.session_view import SessionView


class Balance(HTMLParser):
    """Collects tags that were not closed in order, and everything that would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open_tags: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.crossed = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        self.open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self.crossed += self.open_tags.pop() != tag

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [
            f"{name}={value}" for name, value in attrs if name in ("src", "href") and value and value[0] != "#"
        ]


def parsed(document: str) -> Balance:
    parser = Balance()
    parser.feed(document)
    parser.close()
    return parser


@pytest.mark.parametrize("name", SESSIONS)
def test_the_document_is_balanced_and_well_formed(name: str) -> None:
    document = render_html(build_report(SESSIONS[name]()))
    parser = parsed(document)
    assert (parser.open_tags, parser.crossed) == ([], 0)
    ElementTree.fromstring(document.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize("name", SESSIONS)
def test_the_document_loads_and_runs_nothing(name: str) -> None:
    document = render_html(build_report(SESSIONS[name]()))
    parser = parsed(document)
    assert parser.loads == []
    assert parser.tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "form", "base"})
    assert re.findall(r"\bon\w+\s*=|@import|url\((?!#)", re.sub(r"/\*.*?\*/", "", document, flags=re.DOTALL)) == []
    assert "default-src &#x27;none&#x27;" in document


def test_hostile_strings_stay_text() -> None:
    document = render_html(build_report(hostile_session()))
    assert HOSTILE not in document
    assert "<script" not in document
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in document
    assert "\x00" not in document


def test_every_drawing_has_a_title_and_a_description_or_is_hidden() -> None:
    root = ElementTree.fromstring(render_html(build_report(full_session())).split("\n", 1)[1])
    plots = [svg for svg in root.iter("svg") if svg.get("class") == "plot"]
    assert len(plots) > 20
    assert all(svg.findtext("title") and svg.findtext("desc") for svg in plots)
    outer = [svg for parent in root.iter() if parent.tag != "svg" for svg in parent if svg.tag == "svg"]
    assert all(svg.get("role") == "img" or svg.get("aria-hidden") == "true" for svg in outer)


def test_a_wait_is_hatched_and_said_to_be_a_wait() -> None:
    root = ElementTree.fromstring(render_html(build_report(full_session())).split("\n", 1)[1])
    waits = [svg for svg in root.iter("svg") if svg.get("class") == "segment exposed_wait"]
    assert waits
    for svg in waits:
        assert [rect for rect in svg.iter("rect") if rect.get("fill") == "url(#hatch)"]
        assert "exposed wait" in str(svg.findtext("title"))


def test_every_number_in_a_table_shows_its_source() -> None:
    root = ElementTree.fromstring(render_html(build_report(full_session())).split("\n", 1)[1])
    sources = ("measured", "derived", "forecast", "published", "virtual")
    bare = []
    for td in root.iter("td"):
        text = "".join(td.itertext())
        has_unit = re.search(r"\d (s|x|%|nat|GiB)\b|\d %", text)
        is_number = td.get("class") == "number"
        if is_number and has_unit and not any(source in text for source in sources):
            bare.append(text)
    assert bare == []


def test_unfinished_and_unchanged_sessions_say_so_on_the_first_screen() -> None:
    assert "session not finished" in render_html(build_report(killed_session()))
    assert "NO CHANGE: the default baseline is handed back" in render_html(build_report(no_change_session()))


def test_a_broken_card_is_shown_as_broken() -> None:
    def crash(_: SessionView) -> Shown | NotApplicable:
        raise ValueError("<b>bad</b>")

    document = render_html(build_report(full_session(), [Entry("bad", "Bad", crash)]))
    assert "This card could not be made: ValueError: &lt;b&gt;bad&lt;/b&gt;" in document


def test_rendering_is_a_pure_function_of_the_journal() -> None:
    assert render_html(build_report(full_session())) == render_html(build_report(full_session()))


def test_only_markup_passes_unescaped() -> None:
    assert escaped("<a>") == "&lt;a&gt;"
    assert escaped(Markup("<a>")) == "<a>"
    assert element("p", "<x>", class_='a"b', data_label=None) == '<p class="a&quot;b">&lt;x&gt;</p>'
    assert {str(element(tag)) for tag in VOID} == {"<meta />", "<wbr />"}


def test_backticks_become_code_only_in_pairs() -> None:
    assert prose("use `a`") == "use <code>a</code>"
    assert prose("it`s") == "it`s"
    assert prose("a_b -> c") == "a_<wbr />b \u2192 c"

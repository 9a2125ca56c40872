import errno
import hashlib
import json
import os
import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_events import SteppingClock, session

from steptune.core.errors import StoreError
from steptune.core.event import Diagnosed, SessionEnded
from steptune.core.records import Record, canonical_json
from steptune.store.journal import create_journal, head_path, open_for_append, open_lines, read_journal
from steptune.store.journal_lines import JOURNAL_FORMAT, Entry, Line, chained, decoded, encoded

APPENDER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from steptune.core.event import SessionEnded
from steptune.store.journal import open_for_append

journal = open_for_append(Path(sys.argv[1]), lambda: datetime.now(UTC))
while True:
    text = "x" * (7919 * len(journal.entries) % 20000)
    entry = journal.append(SessionEnded(why=text, cost_wall_s=1.0, cost_device_s=2.0))
    print(entry.seq, flush=True)
"""


def small(number: int) -> SessionEnded:
    return SessionEnded(why=f"n{number}", cost_wall_s=1.5, cost_device_s=0.1)


def filled(folder: Path, num_lines: int) -> Path:
    path = folder / "journal.jsonl"
    create_journal(path)
    journal = open_for_append(path, SteppingClock())
    for number in range(num_lines):
        journal.append(small(number))
    return path


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = filled(tmp_path_factory.mktemp("journal"), 4)
    return path, path.read_bytes()


def refusal(whole: tuple[Path, bytes], content: bytes) -> str:
    whole[0].write_bytes(content)
    with pytest.raises(StoreError) as caught:
        read_journal(whole[0])
    return str(caught.value)


def test_what_is_read_is_what_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    create_journal(path)
    assert read_journal(path) == []
    journal = open_for_append(path, SteppingClock())
    for event in session():
        journal.append(event)
    entries = read_journal(path)
    # NaN is not equal to itself, so the texts are compared
    assert [canonical_json(entry) for entry in entries] == [canonical_json(entry) for entry in journal.entries]
    assert [canonical_json(entry.body) for entry in entries] == [canonical_json(event) for event in session()]
    assert [entry.seq for entry in entries] == list(range(1, 20))
    assert entries[0].time == "2025-11-02T08:00:01.000+00:00"
    assert [entry.prev for entry in entries] == [JOURNAL_FORMAT, *(entry.hash for entry in entries[:-1])]


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = filled(tmp_path, 2)
    open_for_append(path, SteppingClock()).append(small(2))
    assert [entry.seq for entry in read_journal(path)] == [1, 2, 3]


@settings(max_examples=400, deadline=None)
@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_any_single_byte_edit_is_detected(whole: tuple[Path, bytes], at: int, byte: int) -> None:
    content = whole[1]
    at %= len(content)
    edited = content[:at] + bytes([byte]) + content[at + 1 :]
    if edited != content:
        number = content[:at].count(b"\n") + 1
        assert f"line {number} " in refusal(whole, edited)


@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
@settings(max_examples=50, deadline=None)
def test_any_inserted_byte_inside_the_lines_is_detected(whole: tuple[Path, bytes], at: int, byte: int) -> None:
    content = whole[1]
    at %= len(content)
    refusal(whole, content[:at] + bytes([byte]) + content[at:])


@given(order=st.permutations(range(4)), keep=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_any_other_order_or_number_of_lines_is_detected(whole: tuple[Path, bytes], order: list[int], keep: int) -> None:
    lines = whole[1].splitlines(keepends=True)
    if order[:keep] != [0, 1, 2, 3]:
        refusal(whole, b"".join(lines[i] for i in order[:keep]))


@pytest.mark.parametrize(("gone", "named"), [(0, 1), (1, 2), (2, 3), (3, 4)])
def test_a_removed_line_is_named_even_the_last(whole: tuple[Path, bytes], gone: int, named: int) -> None:
    lines = whole[1].splitlines(keepends=True)
    del lines[gone]
    message = refusal(whole, b"".join(lines))
    assert f"line {named} of the journal" in message
    assert "removed" in message


def test_an_edit_that_leaves_the_meaning_alone_is_an_edit(whole: tuple[Path, bytes]) -> None:
    first, rest = whole[1].split(b"\n", 1)
    for edited in (first.replace(b":", b": ", 1), first.replace(b'"n0"', b'"\\u006e0"'), first + b" "):
        assert "line 1 of the journal was edited" in refusal(whole, edited + b"\n" + rest)


def test_lines_with_recomputed_hashes_still_miss_the_head(tmp_path: Path) -> None:
    path = filled(tmp_path, 2)
    first = chained(1, "2025-11-02T08:00:01.000+00:00", JOURNAL_FORMAT, small(7), Entry)
    second = chained(2, "2025-11-02T08:00:02.000+00:00", first.hash, small(8), Entry)
    path.write_bytes(encoded(first) + encoded(second))
    with pytest.raises(StoreError, match="line 2 of the journal is not the line its head names"):
        read_journal(path)


def test_a_journal_that_begins_in_another_format_is_refused() -> None:
    foreign = chained(1, "2025-11-02T08:00:01.000+00:00", "steptune-journal-9", small(0), Entry)
    with pytest.raises(StoreError, match="got seq 1 after `steptune-journal-9`"):
        decoded([encoded(foreign).rstrip()], Entry)


def test_a_line_that_skips_a_number_is_refused_although_its_hashes_fit() -> None:
    first = chained(1, "t", JOURNAL_FORMAT, small(0), Entry)
    third = chained(3, "t", first.hash, small(2), Entry)
    with pytest.raises(StoreError, match="line 2 of the journal does not follow"):
        decoded([encoded(first).rstrip(), encoded(third).rstrip()], Entry)


def test_the_hash_of_a_line_is_what_the_documentation_says() -> None:
    assert decoded([handmade_line(json.loads(small(0).model_dump_json()))], Entry)[0].body == small(0)


def test_an_event_that_this_version_does_not_know_is_refused_as_foreign() -> None:
    with pytest.raises(StoreError, match=r"line 1 of the journal is from another version"):
        decoded([handmade_line({"kind": "session_paused"})], Entry)


class Noted(Record):
    what: str


def test_records_that_are_no_events_are_chained_the_same_way_and_read_by_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    create_journal(path)
    made = open_lines(path, SteppingClock(), Line[Noted])
    made.append(Noted(what="a"))
    made.append(Noted(what="b"))
    again = open_lines(path, SteppingClock(), Line[Noted])
    assert [entry.body.what for entry in again.entries] == ["a", "b"]
    with pytest.raises(StoreError, match="from another version"):
        read_journal(path)


def test_a_head_of_another_version_or_none_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path, 1)
    head = head_path(path)
    text = head.read_text()
    head.write_text(text.replace(JOURNAL_FORMAT, "steptune-journal-2"))
    with pytest.raises(StoreError, match="is from another version, got steptune-journal-2"):
        read_journal(path)
    head.write_text(text[:20])
    with pytest.raises(StoreError, match="was edited or damaged"):
        read_journal(path)
    head.unlink()
    with pytest.raises(StoreError, match="no such file"):
        read_journal(path)


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 10**6))
def test_a_torn_last_line_is_moved_aside_and_the_session_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = filled(tmp_path_factory.mktemp("torn"), 2)
    before = path.read_bytes()
    line = encoded(chained(3, "2025-11-02T08:00:03.000+00:00", read_journal(path)[-1].hash, small(2), Entry))
    torn = line[: 1 + cut % (len(line) - 1)]
    path.write_bytes(before + torn)
    assert [entry.seq for entry in read_journal(path)] == [1, 2]
    assert path.read_bytes() == before + torn, "reading must not change anything"
    open_for_append(path, SteppingClock()).append(small(9))
    assert [entry.body for entry in read_journal(path)] == [small(0), small(1), small(9)]
    assert (path.parent / "journal.torn-1").read_bytes() == torn


def test_a_second_torn_line_does_not_overwrite_the_first(tmp_path: Path) -> None:
    path = filled(tmp_path, 1)
    for torn in (b'{"a', b'{"b'):
        with path.open("ab") as file:
            file.write(torn)
        open_for_append(path, SteppingClock())
    assert [(tmp_path / f"journal.torn-{n}").read_bytes() for n in (1, 2)] == [b'{"a', b'{"b']


def test_a_line_the_head_does_not_count_yet_is_valid(tmp_path: Path) -> None:
    path = filled(tmp_path, 2)
    head = head_path(path).read_bytes()
    open_for_append(path, SteppingClock()).append(small(2))
    head_path(path).write_bytes(head)  # as a crash between line and head leaves it
    assert len(read_journal(path)) == 3
    open_for_append(path, SteppingClock())
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(StoreError, match="line 3 of the journal was removed"):
        read_journal(path)


def test_a_cut_off_end_that_the_head_counts_is_not_taken_for_a_crash(tmp_path: Path) -> None:
    path = filled(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(StoreError, match="line 3 of the journal was removed or cut off"):
        open_for_append(path, SteppingClock())


def test_an_append_by_somebody_else_is_noticed(tmp_path: Path) -> None:
    path = filled(tmp_path, 1)
    mine, theirs = (open_for_append(path, SteppingClock()) for _ in range(2))
    theirs.append(small(1))
    with pytest.raises(StoreError, match="changed by somebody else"):
        mine.append(small(2))
    assert [entry.body for entry in read_journal(path)] == [small(0), small(1)]


def test_a_vanished_journal_is_not_made_anew(tmp_path: Path) -> None:
    path = filled(tmp_path, 1)
    journal = open_for_append(path, SteppingClock())
    path.unlink()
    with pytest.raises(StoreError, match="no such file or folder"):
        journal.append(small(1))
    assert not path.exists()


@pytest.mark.parametrize("num_bytes_that_fit", [0, 1, 100])
def test_a_full_disk_is_named_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_bytes_that_fit: int
) -> None:
    path = filled(tmp_path, 2)
    journal = open_for_append(path, SteppingClock())
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_after(num_bytes_that_fit))
        with pytest.raises(StoreError, match="the disk is full: appending to"):
            journal.append(small(2))
    with pytest.raises(StoreError, match="the journal is closed"):
        journal.append(small(3))
    assert len(read_journal(path)) == 2
    open_for_append(path, SteppingClock()).append(small(4))
    assert [entry.body for entry in read_journal(path)] == [small(0), small(1), small(4)]


def test_a_disk_that_is_full_at_the_head_keeps_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path, 1)
    journal = open_for_append(path, SteppingClock())
    line = len(encoded(chained(2, "2025-11-02T08:00:01.000+00:00", "0" * 64, small(1), Entry)))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_after(line))
        with pytest.raises(StoreError, match=r"the disk is full: writing .*journal-head.json"):
            journal.append(small(1))
    open_for_append(path, SteppingClock()).append(small(2))
    assert [entry.body for entry in read_journal(path)] == [small(0), small(1), small(2)]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_killed_writer_loses_no_event_it_was_told_is_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    create_journal(path)
    rng = random.Random(5)
    num_told = 0
    for _ in range(5):
        command = [sys.executable, "-c", APPENDER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(rng.randint(1, 12)):
                num_told = int(writer.stdout.readline())
            writer.kill()
            num_told = max([num_told, *map(int, writer.stdout.read().split("\n")[:-1])])
        assert len(read_journal(path)) >= num_told
    assert [entry.seq for entry in read_journal(path)] == list(range(1, len(read_journal(path)) + 1))
    open_for_append(path, SteppingClock()).append(Diagnosed(bottlenecks=()))


def test_a_second_reader_may_look_while_the_writer_appends(tmp_path: Path) -> None:
    path = filled(tmp_path, 1)
    with subprocess.Popen([sys.executable, "-c", APPENDER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        seen = [len(read_journal(path)) for _ in range(20) if writer.stdout.readline()]
        writer.kill()
    assert seen == sorted(seen)
    assert seen[-1] > 20


def test_the_time_of_a_line_is_utc_whatever_the_clock_says(tmp_path: Path) -> None:
    path = filled(tmp_path, 0)
    noon_in_tokyo = datetime(2025, 11, 2, 12, tzinfo=timezone(timedelta(hours=9)))
    open_for_append(path, lambda: noon_in_tokyo).append(small(0))
    assert read_journal(path)[0].time == "2025-11-02T03:00:00.000+00:00"


def handmade_line(body: object) -> bytes:
    """Return the first line of a journal that holds ``body``, made without steptune."""
    hashed = json.dumps([1, "t", "steptune-journal-1", body], sort_keys=True, separators=(",", ":"))
    line = {"seq": 1, "time": "t", "prev": "steptune-journal-1", "body": body}
    line["hash"] = hashlib.sha256(hashed.encode()).hexdigest()
    return json.dumps(line, sort_keys=True, separators=(",", ":")).encode()


def full_after(num_bytes: int) -> object:
    """Return an `os.write` for a disk with room for ``num_bytes`` more."""
    real, room = os.write, [num_bytes]

    def write(descriptor: int, content: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fits = content[: room[0]]
        room[0] -= len(fits)
        return real(descriptor, fits)

    return write

"""`report --pack` and `--replicate`: what travels, what does not, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.cli.main import main
from steptune.core.errors import StoreError
from steptune.core.event import Decided, Event, TrialEnded
from steptune.report.pack import make_pack, without_secrets
from steptune.store.journal import read_journal
from steptune.store.journal_lines import Entry
from steptune.store.pack import Pack, chain_of, digest_of, read_pack, write_pack
from steptune.store.run_folder import RunFolder
from steptune.tune.replicate import packed

Capture = pytest.CaptureFixture[str]

SECRETS = ("hf_ABCDEFGHIJKLMNOPQRSTUVWX", "sk-abcdefghijklmnopqrstuvwx", "correct-horse-9battery")
"""Planted: one that tells by its shape, one of another shape, one by the name beside it."""


@pytest.fixture
def pack(tuned_run: Path) -> Path:
    path = Path("session.pack")
    assert main(["report", str(tuned_run), "--pack", str(path)]) == 0
    return path


def with_events(pack: Pack, change: Callable[[Event], Event]) -> Pack:
    """A pack whose forger knows how to chain lines."""
    lines = chain_of(pack.entries, [change(event) for event in pack.events])
    header = pack.header.model_copy(update={"original_head": lines[-1].hash, "sha256": digest_of(lines)})
    return Pack(header=header, entries=tuple(lines))


def test_a_clean_session_travels_line_by_line_and_runs_again_side_by_side(
    pack: Path, tuned_run: Path, capsys: Capture
) -> None:
    held = read_pack(pack)
    journal = (tuned_run / "journal.jsonl").read_bytes()
    assert pack.read_bytes().partition(b"\n")[2] == journal
    assert (held.header.num_redacted, held.header.num_lines) == (0, len(journal.splitlines()))
    assert len(held.header.confirm_seeds) >= 2
    capsys.readouterr()
    assert main(["report", "--replicate", str(pack), "--runs", "again"]) == 0
    out = capsys.readouterr().out
    assert f"Replication of {tuned_run.name}" in out
    assert "in the pack" in out
    assert "replicate: the winner is faster here too" in out
    (folder,) = Path("again").glob("tiny-*")
    assert json.loads((folder / "replicated.json").read_text())["is_same_code"] in (True, False)
    assert main(["report", str(tuned_run), "--pack", str(pack)]) == 1  # nothing is written over
    assert main(["report", str(tuned_run), "--pack", "b", "--verify"]) == 2


def test_a_pack_that_was_changed_is_refused(pack: Path, capsys: Capture) -> None:
    whole = pack.read_bytes()
    lines = whole.splitlines(keepends=True)
    changed = {
        "a digit": whole.replace(b'"seed":', b'"seed": ', 1),
        "a line less": b"".join(lines[:-1]),
        "two lines swapped": b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]),
        "cut off": whole[: len(whole) // 2],
        "another number of seeds": whole.replace(b'"num_redacted":0', b'"num_redacted":x', 1),
        "no pack": b"a rose\n",
        "another format": whole.replace(b"steptune-pack-1", b"steptune-pack-2", 1),
        "empty": b"",
    }
    for what, content in changed.items():
        pack.write_bytes(content)
        assert main(["report", "--replicate", str(pack)]) == 1, what
    assert not list(Path("runs").glob("*-2"))
    assert "hint:" in capsys.readouterr().err


def test_a_decision_that_does_not_follow_is_refused_though_its_chain_is_whole(
    pack: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nicer(event: Event) -> Event:
        if not isinstance(event, Decided):
            return event
        return event.model_copy(update={"decision": event.decision.model_copy(update={"reasons": ("because",)})})

    write_pack(pack, with_events(read_pack(pack), nicer))
    assert main(["report", "--replicate", str(pack)]) == 1
    assert "do not follow from its journal" in capsys.readouterr().err


def test_planted_secrets_do_not_travel_and_hashes_of_code_do(tuned_run: Path) -> None:
    folder = RunFolder.open(tuned_run)
    entries = read_journal(folder.journal_path)

    def planted(event: Event) -> Event:
        if not isinstance(event, TrialEnded):
            return event
        cause = f"login with {SECRETS[0]} failed; OPENAI={SECRETS[1]} DB_PASSWORD={SECRETS[2]} /home/jane/x.log"
        return event.model_copy(update={"trial": event.trial.model_copy(update={"cause": cause})})

    lines = chain_of(entries, [planted(entry.body) for entry in entries])
    text = b"".join(line.model_dump_json().encode() for line in lines)
    assert all(secret.encode() in text for secret in SECRETS)
    hidden = chain_of(lines, without_secrets(tuple(line.body for line in lines)))
    text = b"".join(line.model_dump_json().encode() for line in hidden)
    assert not any(secret.encode() in text for secret in (*SECRETS, "jane"))
    assert hidden[0].body == entries[0].body  # the hash of the code looks like a key, and stays
    assert all(Entry.model_validate_json(line.model_dump_json()) == line for line in hidden)


def test_a_session_without_winner_has_nothing_to_replicate(tuned_run: Path) -> None:
    whole = make_pack(RunFolder.open(tuned_run), (1,))
    undecided = tuple(entry for entry in whole.entries if not isinstance(entry.body, Decided))
    with pytest.raises(StoreError, match="no winner to replicate"):
        packed(Pack(header=whole.header, entries=undecided[:-1]))

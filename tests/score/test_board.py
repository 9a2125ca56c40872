import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from score_rows import JOB

from steptune.published.async_losers import async_losers
from steptune.published.memory_cases import known_cases, memory_cases
from steptune.published.public_run import PublicRun
from steptune.score.board import EACH_LEFT_OUT, Arms, Board, PublicData, public_board
from steptune.score.memory import TRIVIAL_MEMORY_ARMS
from steptune.score.model import TRIVIAL_ARMS, NoChange
from steptune.score.peaks import TRIVIAL_PEAKS
from steptune.score.plot import board_svg
from steptune.score.signs import TRIVIAL_SIGNS
from steptune.score.text import board_text

ARMS = Arms(
    step=TRIVIAL_ARMS,
    sign=TRIVIAL_SIGNS,
    memory=TRIVIAL_MEMORY_ARMS,
    peaks=TRIVIAL_PEAKS,
    left_out={"refitted": lambda owner: NoChange()},
)


def board() -> Board:
    data = PublicData(runs=JOB, losers=async_losers(), cases=memory_cases(), known_cases=known_cases())
    return public_board(data, ARMS, date="2026-11-30", steptune_version="0")


def test_every_arm_stands_on_every_statistic() -> None:
    arms = {line.arm for line in board().errors if line.side == "test" and line.statistic == "structural ratio"}
    assert arms == {"no change", "time ~ 1 / devices", "always asynchronous"}


def test_levers_moved_are_counted_apart() -> None:
    # tp1 moves one family; overlapped moves placement and schedule, and from tp1 the layout too
    answered = {
        line.statistic: line.num_answered for line in board().errors if line.side == "test" and line.arm == "no change"
    }
    assert answered["structural ratio, one lever"] == 2
    assert answered["structural ratio, two levers"] == 2
    assert answered["structural ratio, three levers or more"] == 2


def test_models_refitted_without_each_source_have_their_own_side() -> None:
    assert {line.arm for line in board().errors if line.side == EACH_LEFT_OUT} == {"refitted"}


@dataclass(frozen=True)
class Refuser:
    """Answers nothing and says why."""

    name: str = "refuser"

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        return None

    def refusal(self, run: PublicRun, *, measured: PublicRun | None) -> str | None:
        return "it is late"


def test_refusals_are_counted_with_their_reasons() -> None:
    data = PublicData(runs=JOB, losers=(), cases=())
    arms = Arms(step=(NoChange(), Refuser()), sign=(), memory=(), peaks=(), notes=("12 free parameters",))
    late = public_board(data, arms, date="2026-11-30", steptune_version="0")
    # three rows make six ordered pairs; an arm that gives no reasons has no line
    assert [(line.arm, line.reason, line.num_pairs) for line in late.refusals] == [("refuser", "it is late", 6)]
    text = board_text(late)
    assert "it is late" in text
    assert "12 free parameters" in text


def test_a_board_survives_its_json() -> None:
    assert Board.model_validate_json(board().model_dump_json()) == board()


def test_the_text_names_the_noise_before_any_score() -> None:
    text = board_text(board())
    assert text.index("noise of the data") < text.index("structural ratio")
    assert max(map(len, text.splitlines())) <= 120


def test_the_picture_is_well_formed_and_needs_nothing_else() -> None:
    svg = board_svg(board())
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "href" not in svg
    assert svg.count("<circle") == sum(line.side == "test" and line.median_frac is not None for line in board().errors)

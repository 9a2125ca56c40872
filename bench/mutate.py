"""Mutates real posts at random and asks for the whole answer: no crash, no hang, no claim from no data.

`python bench/mutate.py [--n 100000] [--seed 0] [--keep DIR]` prints counts and exits with 1 if anything failed. Case k
of a seed is always the same input, so that a failure can be looked at again: `--only K --keep DIR` writes it.
"""

import argparse
import math
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType

from backed import unbacked_times, unplaced_findings
from mutations import mutate
from steptune.cli.answer import answer, comparison
from steptune.cli.show import presentable
from steptune.core.comparison import SpeedVerdict
from steptune.core.finding import Diagnosis, Finding, FindingKind
from steptune.report.answer_json import answer_json
from steptune.report.comparison_text import comparison_text
from steptune.report.diagnosis_html import diagnosis_html
from steptune.report.diagnosis_text import diagnosis_text
from steptune.report.headline import NO_STEP_TIMES, NO_TIMING, PARTIAL_TIMING, UNTIMED_STEP

TESTS = Path(__file__).parent.parent / "tests"
POSTS = (TESTS / "pasted" / "fixtures", TESTS / "readers" / "fixtures")
"""Folders with real posts and logs."""

LIMIT_S = 10.0
"""Seconds after which a case counts as hung; a usual one takes a hundredth of that."""

NAMES = (
    *("post.txt",) * 6,
    *("post.log", "run.sh", "job.yaml", "job.toml", "job.json", "metrics.jsonl", "history.csv", "train.py"),
    "events.out.tfevents.1700000000.host",
)
"""File names a post may get: what it is called must not decide what it is."""

COMPARE_EVERY = 10
"""Every so many cases the mutated post is also compared with a whole one."""


class HungError(Exception):
    """A case took longer than `LIMIT_S`."""


def load_posts(folders: Sequence[Path] = POSTS) -> list[bytes]:
    """Return every fixture, in the order of their names."""
    return [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def problems(diagnosis: Diagnosis, text: str) -> list[str]:
    """Return what the answer claims without data for it, or what it must never show."""
    found = [f"control character {c!r} in the text" for c in set(text) if c != "\n" and not c.isprintable()]
    causes = [f for f in diagnosis.findings if f.kind is FindingKind.BOTTLENECK]
    found += unplaced_findings(diagnosis)
    profile = diagnosis.paste.profile
    if profile is None:
        found += [f"`{b.kind}` without timing" for b in diagnosis.bottlenecks]
        found += [
            f"share or ceiling of `{row.key}` without its step" for row in diagnosis.phases if row.share or row.if_free
        ]
        found += ["phases without timing"] if len(diagnosis.phases) != len(diagnosis.paste.phases) else []
        said = any(words[1:] in text for words in (NO_TIMING, PARTIAL_TIMING, UNTIMED_STEP, NO_STEP_TIMES))
        found += [] if said else ["no word that timing is missing"]
        return found + _numbers_without_timing(diagnosis)
    step_s = profile.step_time.value
    if not (math.isfinite(step_s) and step_s > 0):
        found.append(f"a step time of {step_s}")
    return found + [problem for cause in causes for problem in _impossible(cause, step_s)]


def _impossible(cause: Finding, step_s: float) -> list[str]:
    share, ceiling_s = (e.value if e else 0.0 for e in (cause.share, cause.ceiling))
    fits = 0 <= share <= 1 and 0 <= ceiling_s <= step_s * (1 + 1e-9)
    return [] if fits else [f"`{cause.code}` with share {share} and ceiling {ceiling_s} s of {step_s} s"]


def _numbers_without_timing(diagnosis: Diagnosis) -> list[str]:
    ceilings = [f"`{f.code}` has a ceiling without timing" for f in diagnosis.findings if f.ceiling]
    remedies = [(f.code, remedy) for f in diagnosis.findings for remedy in f.remedies]
    return ceilings + [f"`{code}` forecasts a step time without timing" for code, r in remedies if r.step_time]


def check_answer(path: Path) -> list[str]:
    """Ask for the whole answer about ``path`` in every form; return what is wrong with it."""
    diagnosis = presentable(answer([path]))
    text = diagnosis_text(diagnosis)
    answer_json(diagnosis)
    diagnosis_html(diagnosis)
    return problems(diagnosis, text) + unbacked_times(diagnosis, path.read_bytes())


def check_comparison(path: Path, whole: Path) -> list[str]:
    """Compare a whole post with a mutated one; return what is wrong with the answer."""
    found = presentable(comparison([whole], [path]))
    comparison_text(found)
    is_open = found.verdict is SpeedVerdict.NO_PROOF
    has_no_ratio = found.throughput_ratio is None and found.raw_step_ratio is None
    return [f"`{found.verdict}` without any ratio"] if has_no_ratio and not is_open else []


def timed(check: Callable[[], list[str]]) -> list[str]:
    """Return what ``check`` finds, a crash or a hang included."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HungError(f"longer than {LIMIT_S:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - any crash is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:120]}"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_cases(cases: Sequence[int], seed: int, folder: Path, keep: Path | None = None) -> dict[int, list[str]]:
    """Run the numbered cases of ``seed`` with files in ``folder``; return what failed, by case."""
    posts = load_posts()
    whole = folder / "whole.txt"
    failed: dict[int, list[str]] = {}
    for case in cases:
        chance = Random(f"{seed}/{case}")
        data, names = mutate(posts, chance)
        path = folder / chance.choice(NAMES)
        path.write_bytes(data)
        found = timed(partial(check_answer, path))
        if case % COMPARE_EVERY == 0:
            whole.write_bytes(chance.choice(posts))
            found += timed(partial(check_comparison, path, whole))
        if found:
            failed[case] = [f"{path.name}, {' + '.join(names)}: {problem}" for problem in found]
        if keep is not None and (found or len(cases) == 1):
            (keep / f"case-{seed}-{case}-{path.name}").write_bytes(data)
    return failed


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="run this case alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for inputs that failed")
    args = parser.parse_args()
    cases = range(args.first, args.first + args.n) if args.only is None else [args.only]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        failed = run_cases(cases, args.seed, Path(folder), args.keep)
    kinds = Counter(line.split(": ", 1)[1] for lines in failed.values() for line in lines)
    for kind, count in kinds.most_common():
        case = next(c for c, lines in failed.items() if any(kind in line for line in lines))
        print(f"{count:6d}  {kind} (first: case {case})")
    took_s = time.perf_counter() - started
    print(f"mutate: {len(cases)} cases of seed {args.seed}, {len(failed)} failed, {took_s:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

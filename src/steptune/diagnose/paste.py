"""From a paste to its diagnosis: where the time goes, what is sick, what misleads, and what cannot be said.

The surprise is what is left out. During a ramp-up the mean step describes no step, so no bottleneck is named from it;
without timers there is none to name, and the findings say which line would print them.
"""

from steptune.core.finding import Diagnosis, Finding, Severity
from steptune.core.paste import Paste
from steptune.diagnose.arms import reward_differs, two_changes
from steptune.diagnose.bottleneck_findings import bottleneck_finding
from steptune.diagnose.cannot_help import cannot_help
from steptune.diagnose.causes import causes
from steptune.diagnose.health import health
from steptune.diagnose.implausible import implausible, impossible_step
from steptune.diagnose.job import Job, read_job
from steptune.diagnose.mismatch import mismatch
from steptune.diagnose.neighbours import neighbours
from steptune.diagnose.no_claim import no_claims, switch_on
from steptune.diagnose.phase_table import phase_table, untimed_rows
from steptune.diagnose.table_findings import table_findings
from steptune.diagnose.timer_gap import timer_gap


def diagnose_paste(paste: Paste) -> Diagnosis:
    """Return everything that can be said of ``paste`` without its configuration's faults and its memory's errors."""
    job = read_job(paste)
    refusals = [*no_claims(job), *impossible_step(paste)]
    is_settled = all(finding.code != "ramp_up" for finding in refusals)
    found = causes(job) if is_settled else ()
    known = [bottleneck for cause in found if (bottleneck := cause.bottleneck()) is not None]
    findings = [*(bottleneck_finding(job, cause, found) for cause in found), *_others(job), *refusals]
    return Diagnosis(
        paste=paste,
        phases=phase_table(job.profile) if job.profile else untimed_rows(paste.phases),
        bottlenecks=tuple(known),
        findings=tuple(sorted(findings, key=_rank)),
        cannot_help=cannot_help(job.profile) if job.profile and is_settled else (),
        neighbours=neighbours(job),
        switch_on=switch_on(job.paste),
    )


def _others(job: Job) -> list[Finding]:
    of_runs = [finding for finding in (reward_differs(job), two_changes(job)) if finding is not None]
    gap = timer_gap(job)
    return [*health(job), *mismatch(job), *implausible(job), *of_runs, *table_findings(job), *([gap] if gap else [])]


def _rank(finding: Finding) -> tuple[int, float]:
    """Faults first; inside a severity the largest share first."""
    return list(Severity).index(finding.severity), -(finding.share.value if finding.share else 0.0)

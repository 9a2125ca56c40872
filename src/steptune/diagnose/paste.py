"""From a paste to its diagnosis: where the time goes, what is sick, what misleads, and what cannot be said.

The surprise is what is left out. During a ramp-up the mean step describes no step, so no bottleneck is named from it;
without timers there is none to name, and the findings say which line would print them.
"""

from steptune.core.finding import Diagnosis, Finding, Severity
from steptune.core.paste import Paste
from steptune.diagnose.bottleneck_findings import bottleneck_finding
from steptune.diagnose.causes import causes
from steptune.diagnose.job import read_job
from steptune.diagnose.no_claim import no_claims, switch_on
from steptune.diagnose.phase_table import phase_table

_SEVERITIES = (Severity.FAULT, Severity.WARNING, Severity.INFO)


def diagnose_paste(paste: Paste) -> Diagnosis:
    """Return everything that can be said of ``paste`` without its configuration's faults and its memory's errors."""
    job = read_job(paste)
    refusals = no_claims(job)
    is_moving = any(finding.code == "ramp_up" for finding in refusals)
    found = () if is_moving else causes(job)
    findings = [*(bottleneck_finding(job, cause) for cause in found), *refusals]
    return Diagnosis(
        paste=paste,
        phases=phase_table(paste.profile) if paste.profile else (),
        bottlenecks=tuple(cause.bottleneck for cause in found),
        findings=tuple(sorted(findings, key=_rank)),
        switch_on=switch_on(paste),
    )


def _rank(finding: Finding) -> tuple[int, float]:
    """Faults first; inside a severity the largest share first."""
    return _SEVERITIES.index(finding.severity), -(finding.share.value if finding.share else 0.0)

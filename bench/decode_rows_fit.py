"""Fits the priors of `steptune.forecast.decode` on the half of the groups that a hash names; never looks at the other.

`python bench/decode_rows_fit.py` prints the tables that stand in `fit.py` and `forecast.py`, and what a group costs
that was left out: each group alone, then each model with all its groups. About half a minute on one core.

Loss: per group the mean Huber loss of the log error of rows beside the three points, groups weighted equally, and a
pull of every hyperparameter to where it started. Of five strengths this one cost a left-out group least (7.3 %; weaker
ones 7.5 to 7.8, a stronger one 8.6, all with the first structure).
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from decode_rows_arms import job, layout_of, work_of
from decode_rows_data import Group, Measured, package_folder, read_rows, three_points
from steptune.forecast.decode.fit import PRIORS, features
from steptune.forecast.decode.terms import terms

Floats = NDArray[np.float64]
LEAST_ROWS = 5
START_MEAN = np.array([0.0, 0.0, 0.4, 0.4, 0.7, 0.7, 0.5, 0.5, 0.0])
"""Before any fit: bandwidth at two thirds of the peak, arithmetic at half, launches as their scales say."""
START_LOG_SD, START_LOG_NOISE = np.log(0.5), np.log(0.05)
PULL = 0.01
HUBER, MOST_LOSS = 0.1, 0.6
ROUNDS, STEP, LAST_STEP = 10, 0.4, 0.01
GAUSS_NEWTON = 12
Z_80 = 1.2816


@dataclass(frozen=True, kw_only=True)
class Cases:
    """Groups as padded arrays: G group, K point, R row, P factor."""

    groups: list[Group]
    x_GKP: Floats
    y_GK: Floats
    x_GRP: Floats
    y_GR: Floats
    is_row_GR: NDArray[np.bool_]
    is_home_GR: NDArray[np.bool_]

    def only(self, index: Sequence[int]) -> "Cases":
        """Return some of the groups."""
        i = list(index)
        arrays = ("x_GKP", "y_GK", "x_GRP", "y_GR", "is_row_GR", "is_home_GR")
        return Cases(groups=[self.groups[n] for n in i], **{name: getattr(self, name)[i] for name in arrays})


def cases(rows: dict[Group, list[Measured]]) -> Cases:
    """Return the groups of the fitting half that have three points and two rows beside them."""
    chosen = {g: own for g, own in rows.items() if g.is_fit and len(own) >= LEAST_ROWS and three_points(own)}
    x, y, home, at = [], [], [], []
    for group, own in chosen.items():
        shape, device = job(group)
        x.append([features(terms(shape, layout_of(group, m.config), device, work_of(m.config))) for m in own])
        y.append(np.log([m.seconds for m in own]))
        points = three_points(own)
        assert points is not None
        at.append([own.index(p) for p in points])
        home.append([m.config.layout == points[0].config.layout for m in own])
    size = (len(x), max(map(len, x)) - 3)
    x_GRP, y_GR = np.ones((*size, len(PRIORS))), np.zeros(size)
    is_row, is_home = np.zeros(size, bool), np.zeros(size, bool)
    for g, own_x in enumerate(x):
        rest = [i for i in range(len(own_x)) if i not in at[g]]
        n = len(rest)
        x_GRP[g, :n], y_GR[g, :n] = np.array(own_x)[rest], y[g][rest]
        is_row[g, :n], is_home[g, :n] = True, np.array(home[g])[rest]
    x_GKP = np.array([np.array(own)[i] for own, i in zip(x, at, strict=True)])
    y_GK = np.array([own[i] for own, i in zip(y, at, strict=True)])
    return Cases(
        groups=list(chosen), x_GKP=x_GKP, y_GK=y_GK, x_GRP=x_GRP, y_GR=y_GR, is_row_GR=is_row, is_home_GR=is_home
    )


def unpack(hyper: Floats) -> tuple[Floats, Floats, float]:
    """Return means, deviations and the points' noise."""
    size = len(PRIORS)
    return hyper[:size], np.exp(hyper[size : 2 * size]), float(np.exp(hyper[-1]))


def log_seconds(hyper: Floats, some: Cases) -> tuple[Floats, Floats]:
    """Return forecasts and their variance from the factors, as `fit.py` makes them, all groups at once."""
    mean, sd, noise = unpack(hyper)
    factors = np.tile(mean, (len(some.groups), 1))
    precision = np.diag(1 / sd**2)
    for _ in range(GAUSS_NEWTON):
        slope, fitted = _slopes(factors, some.x_GKP)
        hessian = np.einsum("gki,gkj->gij", slope, slope) / noise**2 + precision
        pull = np.einsum("gki,gk->gi", slope, some.y_GK - fitted) / noise**2 + (mean - factors) / sd**2
        factors = factors + np.clip(np.linalg.solve(hessian, pull[..., None])[..., 0], -1, 1)
    slope, fitted = _slopes(factors, some.x_GKP)
    spread = np.linalg.inv(np.einsum("gki,gkj->gij", slope, slope) / noise**2 + precision)
    slope, fitted = _slopes(factors, some.x_GRP)
    return fitted, np.einsum("gri,gij,grj->gr", slope, spread, slope)


def _slopes(factors: Floats, x: Floats) -> tuple[Floats, Floats]:
    parts = x * np.exp(factors)[:, None, :]
    whole = parts.sum(2)
    return parts / whole[:, :, None], np.log(whole)


def loss(hyper: Floats, start: Floats, some: Cases) -> float:
    """Return what the fit makes small."""
    error = np.abs(log_seconds(hyper, some)[0] - some.y_GR)
    each = np.minimum(np.where(error < HUBER, error**2 / (2 * HUBER), error - HUBER / 2), MOST_LOSS)
    own = (each * some.is_row_GR).sum(1) / some.is_row_GR.sum(1)
    return float(own.mean() + PULL * ((hyper - start) ** 2).sum())


def fitted(some: Cases) -> Floats:
    """Return the hyperparameters, by coordinate descent."""
    size = len(PRIORS)
    start = np.concatenate([START_MEAN, np.full(size, START_LOG_SD), [START_LOG_NOISE]])
    best, best_loss, step = start, loss(start, start, some), np.full(len(start), STEP)
    for _ in range(ROUNDS):
        for i in range(len(best)):
            tried = [best + sign * step[i] * np.eye(len(best))[i] for sign in (1, -1)]
            losses = [loss(one, start, some) for one in tried]
            if min(losses) < best_loss:
                best, best_loss = tried[int(np.argmin(losses))], min(losses)
            else:
                step[i] /= 2
        if step.max() < LAST_STEP:
            break
    return best


def left_out(some: Cases, key: Callable[[Group], object]) -> tuple[Floats, Floats]:
    """Return forecasts and variances of groups by fits that saw none with the same key."""
    found, variance = np.zeros_like(some.y_GR), np.zeros_like(some.y_GR)
    for value in dict.fromkeys(map(key, some.groups)):
        out = [i for i, group in enumerate(some.groups) if key(group) == value]
        rest = [i for i in range(len(some.groups)) if i not in out]
        found[out], variance[out] = log_seconds(fitted(some.only(rest)), some.only(out))
    return found, variance


def report(name: str, found: Floats, some: Cases) -> None:
    """Print weighted medians of the error."""
    error = np.abs(np.exp(found - some.y_GR) - 1)
    parts = {"all": some.is_row_GR, "home": some.is_home_GR, "other": some.is_row_GR & ~some.is_home_GR}
    print(name, *(f"{part} {weighted_median(error, mask):.1%}" for part, mask in parts.items()), sep="  ")


def weighted_median(values_GR: Floats, mask_GR: NDArray[np.bool_]) -> float:
    """Return the median over rows, each group's rows together weighing one."""
    weights = np.where(mask_GR, 1 / np.maximum(1, mask_GR.sum(1, keepdims=True)), 0.0)[mask_GR]
    values = values_GR[mask_GR]
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def own_sd(found: Floats, variance: Floats, some: Cases, mask: NDArray[np.bool_]) -> float:
    """Return the deviation beside the factors' own with which four in five of these rows are inside the interval."""
    error = np.abs(found - some.y_GR)
    for sd in np.arange(0.0, 0.5, 0.005):
        inside = error <= Z_80 * np.sqrt(variance + sd**2)
        share = np.mean([inside[g][mask[g]].mean() for g in range(len(mask)) if mask[g].any()])
        if share >= 0.8:
            return float(sd)
    return float("nan")


def main() -> None:
    """Fit, leave out, print."""
    some = cases(read_rows(package_folder())[0])
    print(f"{len(some.groups)} groups, {some.is_row_GR.sum()} rows beside the points")
    hyper = fitted(some)
    mean, sd, noise = unpack(hyper)
    for (name, _), m, s in zip(PRIORS, mean, sd, strict=True):
        print(f'    ("{name}", Prior(mean={m:.2f}, sd={s:.2f})),')
    print(f"POINT_LOG_SD = {noise:.3f}")
    report("fitted on themselves ", log_seconds(hyper, some)[0], some)
    found, variance = left_out(some, lambda group: group)
    report("one group left out   ", found, some)
    home = own_sd(found, variance, some, some.is_home_GR)
    other = own_sd(found, variance, some, some.is_row_GR & ~some.is_home_GR)
    print(f"SAME_LAYOUT_LOG_SD = {home:.3f}\nOTHER_LAYOUT_LOG_SD = {other:.3f}")
    report("one model left out   ", left_out(some, lambda group: group.model)[0], some)


if __name__ == "__main__":
    main()

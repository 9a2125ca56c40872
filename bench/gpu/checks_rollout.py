"""Decoding against the trainer's own log-probs, and noise that belongs to the token and not to the batch.

Shape letters: n rows, B rows of the batch.
"""

import torch

from gpu.checks_model import trainer
from gpu.compare import Finding
from gpu.models import CHECK_VOCAB, CHECKED, EOS, PAD, checked_batch, checked_model
from gpu.site import Site
from steptune.engine.gap import gap_stats
from steptune.engine.knobs import DType, EngineKnobs
from steptune.engine.rollout import RolloutEngine
from steptune.engine.sampling import noise_keys, uniforms
from steptune.engine.types import RolloutBatch

CPU = torch.device("cpu")
MAX_TOKENS = 24
MAX_K3_FP32 = 1e-6
"""Mean k3 in nats a token between decode and training kernels at equal weights, float32: a CPU has 1e-11."""

MAX_K3_BF16 = 2e-2
"""The same in bf16, for weights scaled up until a random model is as sure of itself as a trained one. An expert that
falls differently (MoE) is in it; the number is printed, and a job's own limit is 1e-3 (`limits.max_mismatch_k3`)."""

MAX_DIVERGED_FRAC = 0.1
"""Rows that may take another token somewhere when only the batch's composition changed: a draw next to a boundary."""

LEVERS = (
    EngineKnobs(),
    EngineKnobs(share_prefill=True, compact_finished=True),
    EngineKnobs(share_prefill=True, compact_finished=True, rollout_concurrency=5),
)


def rollout(site: Site, family: str) -> Finding:
    """Sampled tokens' log-probs from the KV cache against the trainer's packed forward, at the same weights."""
    k3 = {dtype: _mismatch(site, family, dtype) for dtype in ("fp32", "bf16")}
    note = f"k3 {k3['fp32']:.3g} in float32 and {k3['bf16']:.3g} in bf16 (up to {MAX_K3_BF16})"
    is_fine = k3["bf16"] <= MAX_K3_BF16
    return Finding(difference=k3["fp32"] if is_fine else k3["bf16"], tolerance=MAX_K3_FP32, note=note)


def keyed_noise(site: Site) -> Finding:
    """The same uniforms as on the CPU bit for bit, and the same tokens whatever the rollout's levers."""
    number_n = torch.arange(1000)
    key_n = noise_keys(3, number_n, number_n % 7)
    expected_n = uniforms(key_n, number_n)
    here_n = uniforms(noise_keys(3, number_n.to(site.device), (number_n % 7).to(site.device)), number_n.to(site.device))
    if not torch.equal(here_n.cpu(), expected_n):
        raise AssertionError("the uniforms differ from the CPU's, though they are made of integers")
    first, *others = (_generated(site.device, "dense", knobs) for knobs in LEVERS)
    diverged = max(_diverged_frac(first, other) for other in others)
    from_cpu = _diverged_frac(first, _generated(CPU, "dense", LEVERS[0]))
    note = f"rows that diverged under other levers; {from_cpu:.2g} of them from the CPU's"
    return Finding(difference=diverged, tolerance=MAX_DIVERGED_FRAC, note=note)


def _mismatch(site: Site, family: str, dtype: DType) -> float:
    """Return the mean k3, in nats a token; NaN where there is nothing to compare."""
    knobs = LEVERS[1].model_copy(update={"rollout_dtype": dtype})
    batch = _generated(site.device, family, knobs)
    learner_knobs = EngineKnobs(layout="packed", micro_batch_tokens=512, train_dtype=dtype)
    ours_BT = trainer(checked_model(family, site.device), learner_knobs).logprobs(batch, 512)
    gap = gap_stats(ours_BT, batch.logprobs_BT, batch.mask_BT)
    return float("nan") if gap is None else gap.k3


def _generated(device: torch.device, family: str, knobs: EngineKnobs) -> RolloutBatch:
    engine = RolloutEngine(CHECKED[family], knobs, vocab_size=CHECK_VOCAB, pad_id=PAD, eos_id=EOS, device=device)
    engine.load(checked_model(family, device).state_dict(), 0)
    prompts = checked_batch().rollout.prompts
    batch, _trace = engine.generate(prompts, max_completion_len=MAX_TOKENS, temperature=1.0, seed=0)
    return batch


def _diverged_frac(a: RolloutBatch, b: RolloutBatch) -> float:
    """Return the part of rows that are not the same tokens."""
    rows = zip(a.completion_BT, b.completion_BT, a.lengths_B.tolist(), b.lengths_B.tolist(), strict=True)
    same = [n == m and torch.equal(x[:n], y[:m]) for x, y, n, m in rows]
    return 1 - sum(same) / len(same)

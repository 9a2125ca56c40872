"""Layouts that the tests of this folder share."""

from steptune.footprint.layout import JobLayout, RolloutLayout, TrainLayout

FSDP_8 = TrainLayout(
    num_devices=8, sharding="full", weight_bytes=4, has_master=False, micro_tokens=16_384, longest=4_096
)
"""verl's FSDP defaults on one node."""

MEGATRON_64 = TrainLayout(
    num_devices=64,
    sharding="optimizer",
    tensor=4,
    pipeline=2,
    grads_stay=True,
    has_fused_kernels=True,
    micro_tokens=8_192,
    longest=8_192,
)

ENGINE = RolloutLayout(tensor=2, share=0.6, longest=4_096)

JOB = JobLayout(train=FSDP_8, rollout=ENGINE)

"""A rollout engine of somebody else (vLLM on the CPU): its own process and environment, reached over HTTP only.

::

    VllmEngine (vllm) ---- wire: JSON over the loopback address ----> vLLM's server, in its own environment
      |  handover: weights and hashes in a folder, reload in place          ^
      +- server: starts it through `guard`, reads its log, stops it --------+
"""

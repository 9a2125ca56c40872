"""What `bench/gpu_check.sh` runs: every CUDA path against the CPU first, then the ratios. See docs/guides/gpu.md."""

"""prime-rl: `SUCCESS Step N | ...` lines of its trainer and its orchestrator, two processes and two clocks."""

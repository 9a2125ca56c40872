"""Fractional devices: a process that may use only a part of the machine's cores, by cgroup or by duty cycle."""

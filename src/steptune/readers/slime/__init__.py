"""slime and miles: console dicts `perf N: {...}`, `rollout N: {...}`, `step N: {...}` of several Ray actors."""

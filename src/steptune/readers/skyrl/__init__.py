"""SkyRL: pprinted dicts `Step N:`, loguru lines `Finished: 'generate', time cost: 45.11s`, tables of `timing/` keys."""

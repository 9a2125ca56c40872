"""Which lines of a paste look like configuration, and of which language.

The surprise: this is a coarse sieve that a whole log goes through, so it looks only at the start of a line; what
passes is judged again in its block. Metric names hold a slash (`timing_s/gen`), configuration keys never do.
"""

import re

CONFIG_LINE: re.Pattern[str] = re.compile(
    r"""\s*(?:
    (?P<fence>```)
    |(?P<comment>\#)
    |(?P<flag>--[A-Za-z][\w.:/-]*(?:[\s=\\]|$))
    |(?P<section>\[{1,2}[A-Za-z_][\w."-]*\]{1,2}\s*(?:\#.*)?$)
    |(?P<control>(?:if|elif)\s+\[|(?:then|else|fi|done|do|esac)\s*$|(?:for|while|case)\s.*(?:do|in)\s*$|set\s+-|fi\b)
    |(?P<export>(?:export|declare|local|readonly)\s+[\w-])
    |(?P<command>(?:\$\s+)?(?:[A-Z_][A-Z0-9_]*=\S*\s+)*
        (?:(?:\S*/)?python[\d.]*|uv|torchrun|accelerate|trl|deepspeed|ray|srun|nohup|vllm)\s+[\w./$"'{-])
    |(?P<environ>os\.environ(?:\[|\.))
    |(?P<array>[A-Za-z_]\w*\+?=\()
    |(?P<call>(?:[\w.]+\s*=\s*)?(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*\(\s*(?:\#.*)?$
        |(?:[\w.]+\s*=\s*)?(?:\w+(?:Config|Arguments|Args)|Namespace|FastLanguageModel\.\w+)\()
    |(?P<spaced>[A-Za-z_][\w.-]*(?:\ \(\w+\))?\s+=\s+[^=\s])
    |(?P<assign>[+~]{0,2}[A-Za-z_@][\w.@-]*\+?=(?!=))
    |(?P<tree>(?:[\w.]+\s*[=:]\s*)?\{\s*(?:$|['"](?!(?:loss|step|epoch|timestamp|reward|time|_\w+)['"])[\w.\-]+['"]\s*:)
        |['"][\w.\-]+['"]\s*:|(?:['"][^'"]*['"],?\s*)$)
    |(?P<item>-\s+(?:['"][^'"]*['"]|[\w.${},@\[\]+-]+)\s*(?:\#.*)?$)
    |(?P<yaml>(?:-\s+)?[A-Za-z_][\w.@-]*\s*:(?:\s|$|[\w.+-]+\s*$))
    |(?P<dots>[a-z_]\w*\ \.{3,}\ )
    |(?P<close>[)}\]]+[,;]?\s*\\?\s*$)
    )""",
    re.VERBOSE,
)
"""Use `.match` on a clean line: a line it refuses holds no setting by itself."""

_METRIC = re.compile(
    r"(?:.*_)?(?:loss|rewards?|reward_std|grad_norm|epoch|step|steps|global_step|kl|entropy|accuracy|acc|time|times"
    r"|throughput|mfu|it/s|runtime|timestamp|elapsed|eta|num_tokens|completion_length|advantages?|returns?|score"
    r"|error|warning|info|note|http|https|file|traceback|date|pid|rank|node_ip)(?:_(?:mean|std|min|max|s|ms|sec))?"
    r"|_n_gpu|__\w+__|train_runtime|.*_per_second",
    re.IGNORECASE,
)
_KNOWN_ANYWAY = frozenset({"max_step", "max_steps", "normalize_rewards", "save_steps", "eval_steps", "logging_steps",
                           "warmup_steps", "total_training_steps", "num_train_epochs", "max_num_steps", "val_period"})  # fmt: skip
_PROSE = re.compile(r"\S+\s+\S+\s+\S+\s+\S+")


def is_metric_name(key: str) -> bool:
    """Whether ``key`` is what logs call a measured value: `timing/step`, `grad_norm`, `reward_std`."""
    if "/" in key:
        return True
    leaf = key.rsplit(".", 1)[-1].lower()
    return leaf not in _KNOWN_ANYWAY and "." not in key and _METRIC.fullmatch(leaf) is not None


def is_prose(value: str) -> bool:
    """Whether an unquoted value is a sentence rather than a setting."""
    bare = value.split(" #", 1)[0].strip()
    return bare[:1] not in ("'", '"', "[", "{", "$", "|", ">", "&", "*") and _PROSE.match(bare) is not None

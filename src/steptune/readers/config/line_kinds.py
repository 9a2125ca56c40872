"""Which lines of a paste look like configuration, and of which language.

The surprise: this is a coarse sieve that a whole log goes through, so it looks only at the start of a line; what
passes is judged again in its block. Metric names hold a slash (`timing_s/gen`), configuration keys never do.
"""

import re

CONFIG_LINE: re.Pattern[str] = re.compile(
    r"""\s*+(?:
    (?P<fence>```)
    |(?P<quoted_flag>(?:[A-Za-z_][\w.]*+\s*+(?:\+?=\s*+[\[(]?|(?<!add_argument)\(\[?)\s*+|[\[(]\s*+)?f?['"]--[A-Za-z][\w.-]*+
        (?:[\s=]|['"](?!\s*:)))
    |(?P<overrides>(?:\d\S*\s+)?(?:Error\ executing\ job\ with\ o|O)verrides:\s*\[
        |['"][+~]{0,2}[A-Za-z_][\w.]*+=[^'"]*+['"]\s*[,\]]|[^\s'"]*+['"],\s*['"][+~]{0,2}[A-Za-z_][\w.]*+=)
    |(?P<comment>\#)
    |(?P<flag>--[A-Za-z][\w.:/-]*+(?:[\s=\\]|$))
    |(?P<section>\[{1,2}[A-Za-z_][\w."-]*+\]{1,2}\s*(?:\#.*)?$)
    |(?P<control>(?:if|elif)\s+\[|\[{1,2}\s+["$-]|(?:then|else|fi|done|do|esac)\s*$|(?:for|while|case)\s.*(?:do|in)\s*$
        |set\s+-|[\w*|.-]++\)\s*(?:$|[A-Za-z_]\w*=)|;;\s*$)
    |(?P<export>(?:export|declare|local|readonly)\s+[\w-])
    |(?P<environ>os\.environ[\[.])
    |(?P<command>(?:\$\s+)?(?:[A-Z_][A-Z0-9_]*+=\S*\s+)*
        (?:(?:[\w.~-]*/[\w./~-]*)?python[\d.]*+|uv|torchrun|accelerate|trl|deepspeed|ray|srun|nohup|vllm
            |swift(?=\ (?:rlhf|sft|pt|rollout|deploy)\b)|megatron(?=\ (?:rlhf|sft|pt)\b))\s+[\w./$"'{-])
    |(?:(?!(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|FATAL|Traceback|File)\b)[+~]{0,2}[A-Za-z_@][\w.@-]*+(?:
        (?P<array>\+?=\()
        |(?P<call>(?:\s*=\s*[A-Za-z_][\w.]*+)?\((?<=(?:Config|uments|espace|rainer|rained|..Args)\())
        |(?P<named_tree>\s*[=:]\s*\{\s*(?:$|['"][\w.-]++['"]\s*:))
        |(?P<spaced>(?:\ \(\w+\))?\s+=\s+[^=\s])
        |(?P<kwarg>=(?!=).*,\s*(?:\#.*)?$)
        |(?P<assign>\+?=(?!=))
        |(?P<yaml>\s*:(?!\s*\d+%)(?:\s|$|[\w.+-]++\s*$))
        |(?P<dots>\ \.{3,}\ )))
    |(?P<tree>\{\s*(?:$|['"](?!(?:loss|step|epoch|timestamp|reward|time|_\w+)['"])[\w.-]++['"]\s*:)
        |['"][\w.-]++['"]\s*:|['"][^'"]*+['"],?\s*$)
    |(?P<item>-\s+(?:['"][^'"]*+['"]|[\w.${},@\[\]+-]++)\s*(?:\#.*)?$)
    |(?P<item_pair>-\s+[A-Za-z_][\w.@-]*+\s*:(?:\s|$))
    |(?P<scalar>(?:[-+]?\d[\d.eE+-]*+|[Tt]rue|[Ff]alse|null|None),?\s*$)
    |(?P<close>[)}\]]++[,;]?\s*\\?\s*$)
    )""",
    re.VERBOSE,
)
"""Use `.match` on a clean line: a line it refuses holds no setting by itself."""

_METRIC = re.compile(
    r"(?:(?:train|eval|val|mean|avg|policy|actor|critic|total|step|iter)_)?"
    r"(?:loss|rewards?|reward_std|grad_norm|epoch|step|global_step|kl|entropy|accuracy|acc|time|throughput|mfu|runtime"
    r"|timestamp|elapsed|eta|num_tokens|completion_length|advantages?|returns?|score|error|warning|info|note|https?"
    r"|file|traceback|date|pid|rank)(?:_(?:mean|std|min|max|s|ms|sec))?"
    r"|_n_gpu|__\w+__|.*_per_second|batch_(?:num_seq|padded_seq_len)",
    re.IGNORECASE,
)
"""Names of measured values and of what starts a log message; a dotted key is never one."""

_PROSE = re.compile(r"\S+\s+\S+\s+\S+\s+\S+")


def is_metric_name(key: str) -> bool:
    """Whether ``key`` is what logs call a measured value: `timing/step`, `grad_norm`, `reward_std`."""
    if "/" in key:
        return True
    return "." not in key and _METRIC.fullmatch(key) is not None


def is_prose(value: str) -> bool:
    """Whether an unquoted value is a sentence rather than a setting."""
    bare = value.split(" #", 1)[0].strip()
    return bare[:1] not in ("'", '"', "[", "{", "$", "|", ">", "&", "*") and _PROSE.match(bare) is not None

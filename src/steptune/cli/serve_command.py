"""`steptune serve`: a model folder behind an OpenAI-compatible endpoint, on the loopback address, until Ctrl-C."""

import argparse
import threading
from pathlib import Path

from steptune.cli.frameworks import need_torch
from steptune.cli.streams import print_line, say
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import ModelError, explain

MAX_PORT = 65535


def run(args: argparse.Namespace) -> int:
    """Load, print the address, answer until interrupted."""
    if not 0 <= args.port <= MAX_PORT:
        raise WrongCallError(
            explain("`--port` is no port", got=args.port, allowed=f"0 to {MAX_PORT}", hint="0 takes a free one")
        )
    need_torch()
    try:
        from steptune.engine.http.folder import serve_folder
    except ImportError as error:
        what, hint = "a model folder needs the package `safetensors`", "`pip install safetensors`"
        raise ModelError(explain(what, got=error, allowed="safetensors 0.5 or newer", hint=hint)) from error
    with serve_folder(Path(args.folder), port=args.port) as server:
        print_line(f"{server.url}/v1/completions")
        say(f"serve: model `{server.model_name}`, Ctrl-C ends it")
        wait()
    return 0


def wait() -> None:
    """Return at Ctrl-C."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        say("serve: ending, what has been asked is answered first")

"""Runs a server so that nothing of it outlives whoever asked for it. A script by itself: standard library only.

``python guard.py command...`` starts the command in this process's group and waits for its own standard input to
close, which happens when the asking process closes it, is killed or crashes; then the whole group is killed. A server
that ends by itself takes the group with it too: vLLM's engine and worker processes stay behind otherwise.
"""

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> None:
    """Run ``command`` until it ends or standard input closes; then kill this process's group, itself included."""
    # sent to the group so that the server may tidy up; ignoring it would be inherited by the server
    signal.signal(signal.SIGTERM, lambda *_: None)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_follow, args=(child,), daemon=True).start()
    sys.stdin.buffer.read()
    _end()


def _follow(child: "subprocess.Popen[bytes]") -> None:
    code = child.wait()
    sys.stderr.write(f"the server ended with exit code {code}\n")
    sys.stderr.flush()
    _end()


def _end() -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])

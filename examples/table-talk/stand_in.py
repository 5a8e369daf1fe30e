"""Stands in for a language model's server, to try things without a key: gives the answers on its command line in turn.

`python stand_in.py ANSWER …` prints the address at which it listens, and writes it to `address` in the current folder.
"""

import contextlib
import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

ANSWERS = itertools.cycle(sys.argv[1:] or ["."])


class Handler(BaseHTTPRequestHandler):
    """Gives the next answer to each request, whatever the question."""

    def do_POST(self):
        """Send the next answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": next(ANSWERS)}
        usage = {"prompt_tokens": 90, "completion_tokens": 9}
        content = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


with contextlib.suppress(KeyboardInterrupt), HTTPServer(("127.0.0.1", 0), Handler) as server:
    address = f"http://127.0.0.1:{server.server_port}/v1"
    Path("address").write_text(address, encoding="utf-8")
    print(f"listening at {address}", flush=True)
    server.serve_forever()

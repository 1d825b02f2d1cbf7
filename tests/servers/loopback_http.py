"""The HTTP server under the stand-ins on loopback: a thread for each connection, and room for many at once."""

from __future__ import annotations

from http.server import ThreadingHTTPServer


class LoopbackHTTP(ThreadingHTTPServer):
    daemon_threads = True
    # With the usual 5 a busy machine answers a client that opens 16 connections at once with resets.
    request_queue_size = 128

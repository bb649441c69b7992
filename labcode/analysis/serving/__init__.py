"""Serving: latencies of requests and the queue that makes them."""

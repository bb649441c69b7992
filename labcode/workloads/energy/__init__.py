"""Programs whose energy is to be measured: work repeated in windows, for a meter of power beside them."""

"""Where an iteration's time goes, each ns once, and what it takes without a cause: reports in, tables out."""

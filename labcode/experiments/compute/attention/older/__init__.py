"""Programs of older guides by the names and flags that they have there."""

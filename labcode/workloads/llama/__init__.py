"""A Llama-3-like decoder by `transformers` with random weights, in training and in generation."""

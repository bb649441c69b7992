"""A language model: the time of its parts, passes and buckets."""

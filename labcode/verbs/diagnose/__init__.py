"""`labcode diagnose`: a file of any kind in; what expert rules say about it, as verdicts or as text, out."""

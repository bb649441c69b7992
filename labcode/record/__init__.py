"""The tools that record, each once: a command in; the tool's own words, a run by it, what it recorded out.

`nsys`, `ncu`, `torch` and `power` know how their tool is started, what it says when it fails and what it
leaves; `attend` runs a user's program beside the terminal. `labcode capture`, `record`, `profile` and
`energy` choose what is recorded and what becomes of it.
"""

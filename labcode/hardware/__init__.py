"""What GPUs promise (``specs``) and what this machine has and permits (``probe``)."""

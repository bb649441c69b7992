"""`labcode doctor`: what this machine has and permits, and what of the book can run on it."""

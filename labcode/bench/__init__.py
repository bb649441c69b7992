"""What is taught, measured: kernels against ceilings and libraries, verdicts against planted causes."""

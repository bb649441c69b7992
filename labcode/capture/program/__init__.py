"""Recording a program of your own: `labcode record`."""

"""Files, memory, the CPU, processes, the web and the command line: nothing in this folder knows the model."""

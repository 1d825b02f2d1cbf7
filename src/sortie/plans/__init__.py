"""Plans: a file with a graph of tasks, what each task is given, and what comes of all of them together."""

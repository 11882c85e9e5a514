"""Hold filters against posteriors that share no code with the library: problems, references and a runner."""

"""One module per command, each with HELP, add_arguments(parser) and run(arguments) -> exit code."""

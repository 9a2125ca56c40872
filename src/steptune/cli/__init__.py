"""The command line: one file a command. `main` parses first and imports a command's code afterwards."""

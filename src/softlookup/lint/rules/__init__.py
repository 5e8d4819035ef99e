"""One lint a file: the file name is the code of the bug and the lint's name, the docstring its page."""

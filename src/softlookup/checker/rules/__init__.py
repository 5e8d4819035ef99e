"""One file per bug: the file name is its code and name, the docstring its page, the functions its steps."""

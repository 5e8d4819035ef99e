"""One file per bug class: the file name is its code and name, the docstring its page, its functions the wrong steps."""

"""One file an intervention: a function that makes it, and a class with the step that it replaces."""

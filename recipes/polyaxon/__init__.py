"""Scripts with the command lines of the Polyaxon tutorial; all they do is in bench/."""

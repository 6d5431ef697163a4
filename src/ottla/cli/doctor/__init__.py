"""`ottla doctor`: checks what is installed and what is reachable, with remedies."""

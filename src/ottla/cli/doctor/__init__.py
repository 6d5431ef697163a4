"""`ottla doctor`: what is installed, what is reachable, what is wrong, and what to do."""

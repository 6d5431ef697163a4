"""Local services: what `ottla up` and `ottla cluster` start, watch and stop."""

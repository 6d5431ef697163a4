"""Services on this machine: what `ottla up` and `ottla cluster` start, watch and end."""

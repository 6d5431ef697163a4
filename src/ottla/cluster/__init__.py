"""The cluster's metadata: where it is kept, what it says, and who decides on changes of it."""

"""One module for each API: `handle(ctx, request)` does its ordered work and returns the response."""

"""One module an API: `handle(ctx, request)` does its ordered work and returns the response."""

"""The only owner of sockets: listening, reading, replying in order, back-pressure, sendfile."""

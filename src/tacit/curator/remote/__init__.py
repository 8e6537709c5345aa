"""What :func:`tacit.connect` is made of: the channel to a server, what is written to it, read from it, and trusted."""

"""Who you are to which server: signing in, tokens, and the file in which they are kept on this machine."""

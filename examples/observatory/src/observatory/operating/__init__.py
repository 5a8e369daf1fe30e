"""What operators do: close accounts and policies, look at what there is, make backups, throw away what is old."""

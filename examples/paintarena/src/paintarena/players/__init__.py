"""Programs that play Paint Arena: `sweep` goes row by row, `frontier` plans ahead and is hard to beat."""

"""Programs that play Paint Arena: `sweep`, who goes row by row, and `frontier`, who is worth losing to."""

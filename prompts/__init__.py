"""People's words become the segments of a prompt. Pure text and numpy: no torch, no files, no network."""

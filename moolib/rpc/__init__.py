"""Remote calls between named peers."""

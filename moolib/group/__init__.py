"""Groups of peers: membership and collective operations."""

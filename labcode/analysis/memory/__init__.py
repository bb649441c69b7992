"""What an allocator's history says: peaks, sites, leaks."""
